package wire

import (
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/google/go-cmp/cmp"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

func TestBuffersHaveTheLengthAskedFor(t *testing.T) {
	var p buffers
	for _, n := range []int{0, 1, 1023, 1024, 1025, 40000, 1 << 20, 1<<22 - 1, 1 << 22, 1<<22 + 1} {
		for range 2 { // the second time perhaps one that was used
			b := p.Get(n)
			if len(*b) != n || cap(*b) > max(2*n, 1<<leastBuffer) {
				t.Errorf("asked for %d bytes: length %d, room for %d", n, len(*b), cap(*b))
			}
			p.Put(b)
		}
	}
	odd := make([]byte, 3000)
	p.Put(&odd) // is none of its own
	if b := p.Get(2048); cap(*b) != 2048 {
		t.Errorf("room for %d bytes", cap(*b))
	}
}

// What was in a buffer does not show in the next message.
func TestUsedBuffersAreWrittenWhole(t *testing.T) {
	c := Codec()
	for n := 5000; n > 300; n -= 400 {
		m := &scorerv1.ScoreStreamResponse{Answers: []*scorerv1.StreamAnswer{{CallId: uint64(n), Result: &scorerv1.StreamAnswer_Response{
			Response: &scorerv1.ScoreResponse{Scores: make([]float32, n)},
		}}}}
		m.Answers[0].GetResponse().Scores[n-1] = 1
		data, err := c.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		parts := mem.BufferSlice{data[0].Slice(0, 100), data[0].Slice(100, data.Len())} // as it comes in frames
		got := &scorerv1.ScoreStreamResponse{}
		if err := c.Unmarshal(parts, got); err != nil {
			t.Fatal(err)
		}
		parts.Free()
		data.Free()
		if diff := cmp.Diff(proto.Message(m), proto.Message(got), protocmp.Transform()); diff != "" {
			t.Fatal(diff)
		}
	}
}
