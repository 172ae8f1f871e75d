package prompt_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"

	"github.com/pointsman/pointsman/services/router/internal/prompt"
)

// ways are how a body can be compressed; zlib and flate are both "deflate".
var ways = []string{"gzip", "zlib", "flate", "zstd", "br"}

func compressed(t testing.TB, way, body string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch way {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	case "zstd":
		w, err = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8<<20))
	case "br":
		w = brotli.NewWriter(&b)
	default:
		w, err = flate.NewWriter(&b, flate.BestSpeed)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func headerOf(way string) string {
	if way == "zlib" || way == "flate" {
		return "deflate"
	}
	return way
}

// B019: compressed bodies are read through a decoded copy, small and large, one after
// another with the same parser.
func TestB019ContentEncoding(t *testing.T) {
	small := `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	large := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("hi there ", 200_000) + `"}]}`
	p := parser(t)
	for _, body := range []string{small, large, small} {
		want := read(t, chat, body)
		for _, c := range []struct{ encoding, how string }{
			{"gzip", "gzip"}, {" GZip ", "gzip"}, {"x-gzip", "gzip"}, {"deflate", "zlib"}, {"deflate", "flate"}, {"zstd", "zstd"}, {"ZSTD", "zstd"}, {"br", "br"}, {"identity", ""},
		} {
			raw := []byte(body)
			if c.how != "" {
				raw = compressed(t, c.how, body)
			}
			got, err := p.Read(prompt.Input{Path: chat, ContentEncoding: c.encoding, Body: raw})
			if err != nil {
				t.Fatal(c.encoding, err)
			}
			if diff := cmp.Diff(want.Prompt.Blocks(64, 256), got.Prompt.Blocks(64, 256)); diff != "" || got.Model != "m" {
				t.Error(c.encoding, got.Model, diff)
			}
			if c.how != "" && got.ModelEnd != 0 {
				t.Errorf("%s: the model is said to be at %d of the body", c.encoding, got.ModelStart)
			}
			got.Prompt.Release()
			if got.Prompt.Text() != "" {
				t.Errorf("%s: text after it was released", c.encoding)
			}
		}
	}
}

func TestB019EncodingsThatAreNotRead(t *testing.T) {
	for _, encoding := range []string{"gzip, gzip", "compress", "zstd, br", "aes128gcm"} {
		got, err := parser(t).Read(prompt.Input{Path: chat, ContentEncoding: encoding, Body: []byte("x")})
		if err != nil {
			t.Fatal(encoding, err)
		}
		want := blank(prompt.Chat)
		want.Opaque = prompt.UnreadEncoding
		if diff := cmp.Diff(want, *got, cmpopts.IgnoreFields(prompt.Reading{}, "Prompt"), cmpopts.IgnoreUnexported(prompt.Reading{})); diff != "" || got.Prompt != nil {
			t.Error(encoding, diff)
		}
	}
}

// What is nothing, a form, or no JSON when decoded is what it would be without.
func TestB019WhatIsInIt(t *testing.T) {
	form := "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n--x--\r\n"
	for _, way := range ways {
		for name, c := range map[string]struct {
			path, contentType, body string
			model, opaque           string
			refused                 prompt.Reason
		}{
			"form":              {path: "/v1/audio/transcriptions", contentType: "multipart/form-data; boundary=x", body: form, model: "whisper"},
			"form, other path":  {path: "/v1/other", contentType: "Multipart/Form-Data; boundary=x", body: form, model: "whisper"},
			"no form":           {path: "/v1/audio/transcriptions", body: form, opaque: "not a multipart form"},
			"nothing":           {path: "/v1/other"},
			"nothing, for chat": {path: chat, refused: prompt.BadJSON},
			"no JSON":           {path: "/v1/other", body: "hello", opaque: "not JSON that can be read"},
			"no JSON, for chat": {path: chat, body: "hello", refused: prompt.BadJSON},
			"path's model":      {path: "/v2/models/a/infer", body: "{}", model: "a"},
		} {
			got, err := parser(t).Read(prompt.Input{Path: c.path, ContentType: c.contentType, ContentEncoding: headerOf(way), Body: compressed(t, way, c.body)})
			if reason(err) != c.refused || err == nil && (got.Model != c.model || got.Opaque != c.opaque) {
				t.Errorf("%s, %s: %+v, %v", way, name, got, err)
			}
		}
	}
}

// Bombs cost no more than the limit, and what is cut or is something else is refused
// where nobody could read it.
func TestDecodedBodiesAreCapped(t *testing.T) {
	cfg := prompt.DefaultConfig()
	cfg.MaxDecodedBytes = 1000
	p, err := prompt.NewParser(cfg)
	if err != nil {
		t.Fatal(err)
	}
	fits := `{"model":"` + strings.Repeat("m", 988) + `"}`
	for _, way := range ways {
		in := prompt.Input{Path: chat, ContentEncoding: headerOf(way), Body: compressed(t, way, fits)}
		if _, err := p.Read(in); err != nil {
			t.Error(way, len(fits), err)
		}
		bomb := compressed(t, way, strings.Repeat(" ", 2<<20))
		in.Body = bomb
		if _, err := p.Read(in); reason(err) != prompt.TooLarge {
			t.Error(way, err)
		}
		for _, raw := range [][]byte{[]byte("\xfenot that"), bomb[:len(bomb)/2]} {
			in.Body = raw
			if _, err := parser(t).Read(in); reason(err) != prompt.BadEncoding && reason(err) != prompt.BadJSON {
				t.Errorf("%s of %d bytes: %v", way, len(raw), err)
			}
		}
		in.Path = "/v1/files"
		if got, err := p.Read(in); err != nil || got.Opaque == "" {
			t.Error(way, got, err)
		}
	}
}

// Copies have a limit together; what finds no room is not read. Every copy gives its room
// back: with its prompt, or at once where there is none.
func TestDecodedBodiesAreCappedTogether(t *testing.T) {
	body := func(way, text string) prompt.Input {
		return prompt.Input{Path: chat, ContentEncoding: headerOf(way), Body: compressed(t, way, text)}
	}
	good := `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	for _, way := range ways {
		cfg := prompt.DefaultConfig()
		cfg.MaxDecodedBytes, cfg.MaxDecodedTotalBytes = 64<<10, 160<<10 // two copies, and a window of zstd
		p, err := prompt.NewParser(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var held []*prompt.Reading
		for i := range 3 {
			got, err := p.Read(body(way, good))
			if err != nil || (got.Opaque != "") != (i == 2) {
				t.Fatalf("%s, body %d: %+v, %v", way, i, got, err)
			}
			held = append(held, got)
		}
		for _, r := range held {
			r.Prompt.Release()
			r.Prompt.Release() // a second time does nothing
		}
		for _, text := range []string{"", "{", "{}", `{"model":7}`, strings.Repeat(" ", 70<<10), strings.Repeat("[", 500)} {
			for range 3 {
				_, _ = p.Read(body(way, text))
			}
		}
		got, err := p.Read(body(way, good))
		if err != nil || got.Opaque != "" {
			t.Fatalf("%s: room is lost: %+v, %v", way, got, err)
		}
		got.Prompt.Release()
	}
}

// A header alone takes no more memory than windows of HTTP have, and what asks for a larger
// one is not read.
func TestZstdWindow(t *testing.T) {
	for _, c := range []struct {
		descriptor byte // of the window
		opaque     string
		most       uint64
	}{
		{0x00, "", 1 << 20},                    // 1 KiB
		{0x58, "", 4 << 20},                    // 2 MiB, what most clients have
		{0x68, "", 12 << 20},                   // 8 MiB
		{0x70, prompt.UnreadEncoding, 1 << 20}, // 16 MiB
		{0x88, prompt.UnreadEncoding, 1 << 20}, // 128 MiB
		{0xf8, prompt.UnreadEncoding, 1 << 20}, // 2 TiB
	} {
		frame := []byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, c.descriptor, 0x11, 0x00, 0x00, '{', '}'} // a raw block of 2 bytes
		p := parser(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := p.Read(prompt.Input{Path: "/tokenize", ContentEncoding: "zstd", Body: frame})
		runtime.ReadMemStats(&after)
		if err != nil || got.Opaque != c.opaque {
			t.Errorf("%x: %+v, %v", c.descriptor, got, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > c.most {
			t.Errorf("%x: %d bytes for a body of %d", c.descriptor, took, len(frame))
		}
	}
}

// So it is with brotli, whose windows are 16 MiB at most.
func TestBrotliWindow(t *testing.T) {
	var b bytes.Buffer
	w := brotli.NewWriterOptions(&b, brotli.WriterOptions{Quality: 5, LGWin: 24})
	if _, err := w.Write([]byte(`{"model":"m","prompt":"x"}`)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p := parser(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := p.Read(prompt.Input{Path: completions, ContentEncoding: "br", Body: b.Bytes()})
	runtime.ReadMemStats(&after)
	if err != nil || got.Model != "m" {
		t.Errorf("%+v, %v", got, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%d bytes for a body of %d", took, b.Len())
	}
}

// FuzzEncoded: what decodes is read as if it had come so, and nothing panics or loses
// room on what does not.
func FuzzEncoded(f *testing.F) {
	for way := range ways {
		f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`), uint8(way), uint16(0), uint8(0))
		f.Add([]byte(`{"prompt":[1,2,3]}`), uint8(way), uint16(5), uint8(1))
		f.Add([]byte(strings.Repeat(" ", 100_000)+"{}"), uint8(way), uint16(3), uint8(0x80))
	}
	cfg := prompt.DefaultConfig()
	cfg.MaxDecodedBytes, cfg.MaxDecodedTotalBytes = 1<<20, 10<<20
	p, err := prompt.NewParser(cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte, which uint8, at uint16, flip uint8) {
		way := ways[int(which)%len(ways)]
		for _, path := range []string{chat, "/v1/other"} {
			in := prompt.Input{Path: path, ContentEncoding: headerOf(way), Body: compressed(t, way, string(body))}
			want, wantErr := parser(t).Read(prompt.Input{Path: path, Body: body})
			got, gotErr := p.Read(in)
			if reason(gotErr) != reason(wantErr) && reason(gotErr) != prompt.TooLarge {
				t.Fatalf("%s: %v, and %v without", way, gotErr, wantErr)
			}
			if gotErr == nil {
				if got.Opaque != want.Opaque || got.Model != want.Model || !cmp.Equal(blocksOf(got), blocksOf(want)) {
					t.Fatalf("%s: %+v, and %+v without", way, got, want)
				}
				got.Prompt.Release()
			}
			for _, raw := range [][]byte{damaged(in.Body, int(at), flip), body} {
				in.Body = raw
				if got, err := p.Read(in); err == nil {
					if strings.HasPrefix(got.Opaque, "as many bytes") {
						t.Fatal("room is lost")
					}
					got.Prompt.Release()
				}
			}
		}
	})
}

func blocksOf(r *prompt.Reading) []uint64 {
	if r.Prompt == nil {
		return nil
	}
	return r.Prompt.Blocks(16, 8)
}

// damaged is raw with bits of a byte flipped, or without its end.
func damaged(raw []byte, at int, flip uint8) []byte {
	out := bytes.Clone(raw)
	at %= len(out)
	if flip == 0 {
		return out[:at]
	}
	out[at] ^= flip
	return out
}
