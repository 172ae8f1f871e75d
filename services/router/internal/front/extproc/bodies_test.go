package extproc

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
)

// Bodies of all shapes that clients send are routed, and go on byte for byte. B001 to
// B034, where the protocol is concerned; how they are read is package prompt's.
func TestShapes(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		model            string
		prompt           bool
	}{
		{"B001 chat", "/v1/chat/completions", `{"model":"m","temperature":0,"messages":[{"role":"user","content":"hi"}]}`, "m", true},
		{"B002 I8 list of parts", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]}`, "m", true},
		{"B004 no content", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c1"}]},{"role":"tool","tool_call_id":"c1","content":"[{\"x\":1}]"}]}`, "m", true},
		{"B006 list of prompts", "/v1/completions", `{"model":"m","prompt":["a","b"],"max_tokens":1}`, "m", true},
		{"B006 list of one", "/v1/completions", `{"model":"m","prompt":["a"]}`, "m", true},
		{"B007 token ids", "/v1/completions", `{"model":"m","prompt":[1,2,3,4]}`, "m", true},
		{"B007 lists of token ids", "/v1/completions", `{"model":"m","prompt":[[1,2],[3,4]]}`, "m", true},
		{"B009 embeddings", "/v1/embeddings", `{"model":"m","input":["a","b"]}`, "m", true},
		{"B009 embeddings of a string", "/v1/embeddings", `{"model":"m","input":"a"}`, "m", true},
		{"B010 responses with a list", "/v1/responses", `{"model":"m","input":[{"role":"user","content":"Hello"}],"max_tokens":50}`, "m", true},
		{"B010 responses with a string", "/v1/responses", `{"model":"m","input":"Hello"}`, "m", true},
		{"B012 unknown part", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"image","image":"data:image;base64,/9j/.."},{"type":"text","text":"Describe"}]}]}`, "m", true},
		{"Anthropic messages", "/v1/messages", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`, "m", true},
		{"rerank", "/v1/rerank", `{"model":"m","query":"q","documents":["a"]}`, "m", true},
		{"tokenize", "/tokenize", `{"model":"m","prompt":"x"}`, "m", false},
		{"unknown path, JSON", "/my/own", `{"model":"m","x":[1]}`, "m", false},
		{"unknown path, no JSON", "/my/own", "\x00\x01binary", "", false},
		{"B030 percent sign", "/v1/completions", `{"model":"tweet-summary%-0","prompt":"x"}`, "tweet-summary%-0", true},
		{"B030 colon", "/v1/completions", `{"model":"org/name:tag","prompt":"x"}`, "org/name:tag", true},
		{"B030 no messages", "/v1/chat/completions", `{"model":"m","messages":[]}`, "m", false},
		{"B031 not made normal", "/v1/completions", `{"model":"gpt-4o-2024-08-06","prompt":"x"}`, "gpt-4o-2024-08-06", true},
		{"B033 scalars of other types", "/v1/chat/completions", `{"model":"m","stream":"true","max_tokens":"100","stream_options":{"include_usage":"true"},"messages":[{"role":"user","content":"x"}]}`, "m", true},
		{"KServe", "/v2/models/m/infer", `{"inputs":[]}`, "m", false},
		{"no path that is known, but one before a rewrite", "/rewritten", `{"model":"m","prompt":"x"}`, "m", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			eachMode(t, func(t *testing.T, mode string) {
				p := r.open(mode, streamed)
				got, body := p.submit(mode, c.path+"?a=b", c.body)
				if got.Set[edge.HeaderDestination] != "192.168.1.1:8000" || got.Set["content-length"] != "" {
					t.Errorf("it was answered with %v", got)
				}
				if body != c.body {
					t.Errorf("the body became %q", body)
				}
				if req, _ := r.request(); req.Model != c.model || (req.Prompt != nil) != c.prompt || req.Path != c.path {
					t.Errorf("it was read as %+v", req)
				}
				p.finish()
			})
			// In full duplex, cut anywhere, it is the same request.
			p := r.duplex()
			p.headers("POST", c.path, false)
			for i := range len(c.body) {
				p.body(c.body[i:i+1], i == len(c.body)-1)
			}
			p.routed()
			p.same(c.body)
			if req, _ := r.request(); req.Model != c.model || (req.Prompt != nil) != c.prompt {
				t.Errorf("cut in bytes it was read as %+v", req)
			}
			p.finish()
		})
	}
}

// I, HEAD parser: a path that a proxy has rewritten is told in another header.
func TestOriginalPath(t *testing.T) {
	for _, name := range []string{"x-original-path", "x-forwarded-path"} {
		r := newRig(t)
		p := r.duplex()
		p.post("/generate-text", `{"model":"m","prompt":"x"}`, name, "/v1/completions?a=b")
		p.routed()
		if req, _ := r.request(); req.Path != "/v1/completions" || req.Prompt == nil {
			t.Errorf("%s: it was read as %+v", name, req)
		}
		p.echoed()
		p.finish()
	}
}

// What is ambiguous, absurd or of the wrong type where it must be known is refused; and
// never with a 5xx.
func TestUnroutableBodies(t *testing.T) {
	deep := func(n int) string {
		return `{"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `,"model":"m","prompt":"x"}`
	}
	objects := strings.Repeat(`{"a":`, 31000) + "1" + strings.Repeat("}", 31000)
	for _, c := range []struct {
		name, path, body, reason string
	}{
		{"B029 model twice", "/v1/chat/completions", `{"model":"cheap","messages":[],"model":"dear"}`, "duplicate-key"},
		{"B029 messages twice", "/v1/chat/completions", `{"model":"m","messages":[],"messages":[{"role":"user","content":"x"}]}`, "duplicate-key"},
		{"B030 empty object", "/v1/completions", `{}`, "model-missing"},
		{"B030 no body", "/v1/completions", ``, "bad-json"},
		{"B033 model is a number", "/v1/completions", `{"model":123,"prompt":"x"}`, "bad-model"},
		{"after the value", "/v1/completions", `{"model":"m","prompt":"x"}{}`, "bad-json"},
		{"B231 depth 1,000", "/v1/completions", deep(1000), "too-deep"},
		{"B231 depth 10,000", "/v1/completions", deep(10000), "too-deep"},
		{"B231 depth 100,000", "/v1/completions", deep(100000), "too-deep"},
		{"B231 depth 1,000,000", "/v1/completions", deep(1000000), "too-deep"},
		{"B231 31,000 objects", "/v1/completions", objects, "too-deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			eachMode(t, func(t *testing.T, mode string) {
				p := r.open(mode, none)
				p.headers("POST", c.path, false)
				if mode != duplex {
					p.routed()
				}
				p.body(c.body, true)
				if got := p.refused(); got.Status != 400 || got.Reason != c.reason {
					t.Errorf("refused with %+v", got)
				}
			})
			if r.decided() != 0 {
				t.Error("it was decided")
			}
		})
	}
	t.Run("B030 POST that ends with its headers", func(t *testing.T) {
		p := newRig(t).duplex()
		p.headers("POST", "/v1/completions", true)
		if got := p.refused(); got.Status != 400 || got.Reason != "bad-json" {
			t.Errorf("refused with %+v", got)
		}
	})
	t.Run("POST of an unknown kind that ends with its headers", func(t *testing.T) {
		p := newRig(t).duplex()
		p.headers("POST", "/anything", true)
		p.to("192.168.1.1:8000")
		p.finish()
	})
}

// compressed returns text in a content encoding.
func compressed(t testing.TB, encoding, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	default:
		return text
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// B019: compressed bodies are read through a copy and go on as they are, or are routed
// without being read. Never is their model said to be missing.
func TestContentEncoding(t *testing.T) {
	large := chat("m", strings.Repeat("large ", 50000))
	type row struct{ name, encoding, body, model string }
	rows := []row{{"identity", "identity", chat("m", "x"), "m"}}
	for _, e := range []string{"gzip", "deflate", "zstd", "br"} {
		rows = append(rows, row{"small " + e, e, compressed(t, e, chat("m", "x")), "m"}, row{"large " + e, e, compressed(t, e, large), "m"})
	}
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			eachMode(t, func(t *testing.T, mode string) {
				p := r.open(mode, none)
				_, body := p.submit(mode, "/v1/chat/completions", c.body, "content-encoding", c.encoding)
				if body != c.body {
					t.Error("the body was changed")
				}
				if req, _ := r.request(); req.Model != c.model {
					t.Errorf("the model is %q", req.Model)
				}
				p.finish()
			})
			// In parts, too.
			p := r.duplex()
			p.headers("POST", "/v1/chat/completions", false, "content-encoding", c.encoding)
			p.body(c.body[:20], false)
			p.body(c.body[20:], true)
			p.routed()
			p.same(c.body)
			if req, _ := r.request(); req.Model != c.model {
				t.Errorf("in parts, the model is %q", req.Model)
			}
			p.finish()
		})
	}
	t.Run("not what it says", func(t *testing.T) {
		p := newRig(t).duplex()
		p.post("/v1/chat/completions", chat("m", "x"), "content-encoding", "gzip")
		if got := p.refused(); got.Status != 400 || got.Reason != "bad-encoding" {
			t.Errorf("refused with %+v", got)
		}
	})
	t.Run("larger than allowed when decoded", func(t *testing.T) {
		p := newRig(t, with(func(c *Config) { c.Prompt.MaxDecodedBytes = 1000 })).duplex()
		p.post("/v1/chat/completions", compressed(t, "gzip", large), "content-encoding", "gzip")
		if got := p.refused(); got.Status != 413 || got.Reason != "too-large" {
			t.Errorf("refused with %+v", got)
		}
	})
	t.Run("an encoding that nobody knows", func(t *testing.T) {
		r := newRig(t)
		p := r.duplex()
		p.post("/v1/chat/completions", "\x01\x02", "content-encoding", "x-acme")
		p.to("192.168.1.1:8000")
		p.same("\x01\x02")
		if got := r.count("unread_encodings_total"); got != 1 {
			t.Errorf("%d encodings are counted as not read", got)
		}
		p.finish()
	})
}

// B021: multipart forms go on as they are; the model is read from them.
func TestMultipart(t *testing.T) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	w.WriteField("model", "whisper")
	w.WriteField("prompt", "..")
	f, _ := w.CreateFormFile("file", "a.mp3")
	io.WriteString(f, filled(780<<10))
	w.Close()
	r := newRig(t)
	eachMode(t, func(t *testing.T, mode string) {
		p := r.open(mode, none)
		p.headers("POST", "/v1/audio/transcriptions", false, "content-type", w.FormDataContentType())
		if mode != duplex {
			p.routed()
		}
		p.body(b.String()[:b.Len()/2], mode != duplex)
		if mode == duplex {
			p.body(b.String()[b.Len()/2:], true)
			p.routed()
			p.same(b.String())
		} else {
			p.recv()
		}
		if req, _ := r.request(); req.Model != "whisper" {
			t.Errorf("the model is %q", req.Model)
		}
		p.finish()
	})
}

// B016, B017: bodies up to the limit are served in every mode that brings them, and
// larger ones are 413, as early as that is known.
func TestLimits(t *testing.T) {
	small := with(func(c *Config) { c.MaxRequestBytes = 100000 })
	body := chat("m", strings.Repeat("x", 100000))
	t.Run("announced", func(t *testing.T) {
		r := newRig(t, small)
		for _, mode := range []string{duplex, buffered, partial} {
			p := r.open(mode, none)
			p.headers("POST", "/v1/chat/completions", false, "content-length", fmt.Sprint(len(body)))
			if got := p.refused(); got.Status != 413 || got.Reason != "too-large" {
				t.Errorf("refused with %+v", got)
			}
		}
	})
	t.Run("not announced", func(t *testing.T) {
		r := newRig(t, small)
		p := r.duplex()
		p.headers("POST", "/v1/chat/completions", false)
		for i := 0; i < len(body); i += 16384 {
			p.body(body[i:min(i+16384, len(body))], false)
		}
		if got := p.refused(); got.Status != 413 || got.Reason != "too-large" {
			t.Errorf("refused with %+v", got)
		}
	})
	t.Run("in one message", func(t *testing.T) {
		r := newRig(t, small)
		eachMode(t, func(t *testing.T, mode string) {
			p := r.open(mode, none)
			p.headers("POST", "/v1/chat/completions", false)
			if mode != duplex {
				p.routed()
			}
			p.body(body, true)
			if got := p.refused(); got.Status != 413 || got.Reason != "too-large" {
				t.Errorf("refused with %+v", got)
			}
		})
	})
	t.Run("just within", func(t *testing.T) {
		r := newRig(t, with(func(c *Config) { c.MaxRequestBytes = int64(len(body)) }))
		eachMode(t, func(t *testing.T, mode string) {
			p := r.open(mode, none)
			if _, got := p.submit(mode, "/v1/chat/completions", body); got != body {
				t.Error("the body was changed")
			}
			p.finish()
		})
	})
	t.Run("B016 B017 large messages", func(t *testing.T) {
		r := newRig(t)
		for _, size := range []int{1014506, 6 << 20, 25 << 20} {
			body := chat("m", strings.Repeat("x", size-len(chat("m", ""))))
			p := r.open(buffered, none)
			if _, got := p.submit(buffered, "/v1/chat/completions", body); got != body {
				t.Errorf("a body of %d bytes was changed", size)
			}
			if req, _ := r.request(); req.Model != "m" || req.PromptTokens < uint32(size/4-100) {
				t.Errorf("it was read as %+v", req)
			}
			p.finish()
		}
	})
	t.Run("a message that is too large for gRPC", func(t *testing.T) {
		r := newRig(t, with(func(c *Config) { c.MaxRequestBytes = 1000 }))
		p := r.open(buffered, none)
		p.headers("POST", "/v1/chat/completions", false)
		p.routed()
		p.body(strings.Repeat("x", 18<<20), true)
		if m, err := p.stream.Recv(); err == nil {
			t.Errorf("it was answered with %v", m)
		}
		r.ended("too-large", 1)
	})
}

// B16, B18: calls of gRPC are decided by their headers, because their bodies may never
// end; their frames go on as they are, whole or in halves, and trailers are answered. (The
// reference reads them with a parser of one engine's messages.)
func TestGRPCCalls(t *testing.T) {
	frame := "\x00\x00\x00\x00\x0b\x0a\x04test\x12\x03\x00\xff\x80"
	for name, parts := range map[string][]string{"B16": {frame}, "B18": {frame[:7], frame[7:]}, "B16 stream": {frame, frame, frame}} {
		for _, path := range []string{"/vllm.grpc.engine.VllmEngine/Generate", "/vllm.grpc.engine.VllmEngine/Embed"} {
			t.Run(name+path, func(t *testing.T) {
				r := newRig(t)
				p := r.duplex()
				p.headers("POST", path, false, "content-type", "application/grpc", "te", "trailers")
				p.to("192.168.1.1:8000")
				for i, part := range parts {
					last := i == len(parts)-1
					p.body(part, last)
					m := p.recv().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
					if string(m.GetBody()) != part || m.GetEndOfStream() != last {
						t.Errorf("a frame became %v", m)
					}
				}
				p.answer(200, false, "content-type", "application/grpc")
				p.recv()
				p.answerBody(frame, false)
				p.passes(duplex, frame, false)
				p.answerTrailers()
				if m := p.recv(); m.GetResponseTrailers() == nil {
					t.Errorf("the trailers were answered with %v", m)
				}
				if req, _ := r.request(); req.Prompt != nil || req.Path != path {
					t.Errorf("it was read as %+v", req)
				}
				if o := r.last(); !o.Completed {
					t.Errorf("the outcome is %+v", o)
				}
				p.cancel()
			})
		}
	}
}
