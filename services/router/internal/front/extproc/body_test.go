package extproc

import (
	"bytes"
	"strings"
	"testing"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
)

// received returns a message with the body, as gRPC would hand it out.
func received(t *rapid.T, text string, pool *leakPool) *wire.Request {
	b, err := proto.Marshal(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestBody{RequestBody: &extproc.HttpBody{Body: []byte(text)}}})
	if err != nil {
		t.Fatal(err)
	}
	in := new(wire.Request)
	data := mem.BufferSlice{pool.hold(b)}
	if err := wire.Codec().Unmarshal(data, in); err != nil {
		t.Fatal(err)
	}
	data.Free()
	return in
}

func textOf(parts []mem.Buffer) string {
	var b strings.Builder
	for _, p := range parts {
		b.Write(p.ReadOnlyData())
	}
	return b.String()
}

// A body that comes in messages of any size is what they held together, in whatever way
// it is cut, replaced and split, and lets go of everything.
func TestBodyIsItsMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool := &leakPool{}
		var b body
		var want strings.Builder
		for range rapid.IntRange(0, 12).Draw(t, "messages") {
			text := strings.Repeat(rapid.StringN(0, 4, -1).Draw(t, "text"), rapid.SampledFrom([]int{0, 1, 20, 127, 128, 900}).Draw(t, "times"))
			in := received(t, text, pool)
			b.add(in)
			b.ends = append(b.ends, b.size)
			in.Reset()
			want.WriteString(text)
		}
		b.gather()
		text := want.String()
		check := func(what string) {
			t.Helper()
			if got := textOf(b.parts); got != text || b.size != len(text) || string(b.whole()) != text {
				t.Fatalf("%s: %d bytes in parts, size %d, want %d", what, len(got), b.size, len(text))
			}
			for i, e := range b.ends {
				if e < 0 || e > len(text) || i > 0 && e < b.ends[i-1] {
					t.Fatalf("%s: messages end at %v of %d", what, b.ends, len(text))
				}
			}
		}
		check("as it came")
		start := rapid.IntRange(0, len(text)).Draw(t, "start")
		end := rapid.IntRange(start, len(text)).Draw(t, "end")
		put := rapid.String().Draw(t, "put")
		b.replace(start, end, []byte(put))
		text = text[:start] + put + text[end:]
		check("with a part replaced")
		if last := len(b.ends) - 1; last >= 0 && end > start && b.ends[last] != len(text) {
			t.Fatalf("messages end at %v of %d", b.ends, len(text))
		}

		var again bytes.Buffer
		for rest := b.parts; len(rest) > 0; {
			var next []mem.Buffer
			next, rest = chunk(rest)
			size := 0
			for _, p := range next {
				again.Write(p.ReadOnlyData())
				size += p.Len()
				p.Free()
			}
			if size > 62000 || size < 62000 && len(rest) > 0 {
				t.Fatalf("a message has %d bytes, and more follow: %v", size, len(rest) > 0)
			}
		}
		if again.String() != text {
			t.Fatal("in messages it is another")
		}
		b.forget()
		if pool.held != 0 {
			t.Fatalf("%d buffers are held", pool.held)
		}
	})
}

// Bytes that come one by one take about as much room as they are.
func TestTinyMessages(t *testing.T) {
	var b body
	var in wire.Request
	m, err := proto.Marshal(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestBody{RequestBody: &extproc.HttpBody{Body: []byte("x")}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(m)}, &in); err != nil {
		t.Fatal(err)
	}
	const n = 100000
	for range n {
		b.add(&in)
	}
	b.gather()
	if b.size != n || len(b.parts) > n/tinyRoom+1 {
		t.Errorf("%d bytes are in %d parts", b.size, len(b.parts))
	}
}
