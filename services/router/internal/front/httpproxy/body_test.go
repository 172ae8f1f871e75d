package httpproxy

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
)

// Bodies of every shape reach the engine as they are, and what is understood of them
// reaches routing.
func TestBodyShapes(t *testing.T) {
	r := newRig(t, []http.Handler{echo()})
	for _, c := range []struct{ name, path, body, text string }{
		{"B001 chat without prompt", "/v1/chat/completions", `{"model":"m","temperature":0,"messages":[{"role":"user","content":"hi"}]}`, "\x1emuser\x1echi"},
		{"B002 text parts", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]}`, "\x1emuser\x1eca\x1ecb\x1emuser\x1ecc"},
		{"B004 no content", "/v1/chat/completions", `{"model":"m","messages":[{"role":"assistant","tool_calls":[]},{"role":"tool","tool_call_id":"c1","content":"[{}]"}]}`, "\x1emassistant\x1ek[]\x1emtool\x1ec[{}]\x1ei\"c1\""},
		{"B006 list of strings", "/v1/completions", `{"model":"m","prompt":["a","b"],"max_tokens":1}`, "a\x1epb"},
		{"B007 token ids", "/v1/completions", `{"model":"m","prompt":[1,2,3,4]}`, ""},
		{"B007 lists of token ids", "/v1/completions", `{"model":"m","prompt":[[1,2],[3,4]]}`, ""},
		{"B009 embeddings", "/v1/embeddings", `{"model":"m","input":["a","b"]}`, "a\x1epb"},
		{"B009 embeddings of a string", "/v1/embeddings", `{"model":"m","input":"a"}`, "a"},
		{"B009 embeddings of ids", "/v1/embeddings", `{"model":"m","input":[1,2,3]}`, ""},
		{"B010 responses of a list", "/v1/responses", `{"model":"m","input":[{"role":"user","content":"Hello"}],"max_tokens":50}`, "\x1emuser\x1ecHello"},
		{"B012 unknown part", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"image","image":"data:image;base64,/9j/.."},{"type":"text","text":"Describe"}]}]}`,
			"\x1emuser\x1ex{\"type\":\"image\",\"image\":\"data:image;base64,/9j/..\"}\x1ecDescribe"},
		{"B028 characters that encoders escape", "/v1/completions", `{"model":"m","prompt":"` + strings.Repeat("\u2028", 100) + `<html>&"}`, strings.Repeat("\u2028", 100) + "<html>&"},
		{"B033 wrong types", "/v1/chat/completions", `{"model":"m","stream":"true","max_tokens":"100","stream_options":{"include_usage":"true"},"messages":7}`, ""},
		{"I2 prompt", "/v1/completions", `{"model":"m","prompt":"test prompt"}`, "test prompt"},
		{"I3 list of objects", "/v1/completions", `{"model":"m","prompt":[{}]}`, ""},
		{"B030 empty messages", "/v1/chat/completions", `{"model":"m","messages":[]}`, ""},
		{"anthropic", "/v1/messages", `{"model":"m","system":"s","messages":[{"role":"user","content":"q"}]}`, "\x1emsystem\x1ecs\x1emuser\x1ecq"},
		{"rerank without a model", "/rerank", `{"query":"q","documents":["d"]}`, "\x1eQ\"q\"\x1eD[\"d\"]"},
		{"tokenize", "/tokenize", `{"prompt":"q"}`, ""},
		{"unknown path, no JSON", "/v1/files", `not JSON`, ""},
		{"unknown path, nothing", "/v1/batches", ``, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := r.do("POST", c.path, c.body)
			if got.status != 200 || got.body != c.body {
				t.Fatalf("%d %q %v", got.status, got.body, got.err)
			}
			if diff := cmp.Diff(c.text, r.lastText()); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestRefusedBodies(t *testing.T) {
	r := newRig(t, []http.Handler{echo()}, with(func(c *Config) { c.MaxRequestBytes = 2 << 20 }))
	const chat = "/v1/chat/completions"
	for _, c := range []struct {
		name, path, body string
		status           int
		reason, param    string
	}{
		{"A2 plain text", chat, "no healthy upstream", 400, "bad-json", ""},
		{"B030 zero length", chat, "", 400, "bad-json", ""},
		{"B030 no model", chat, `{"messages":[]}`, 400, "model-missing", "model"},
		{"B030 empty object", "/v1/completions", `{}`, 400, "model-missing", "model"},
		{"B030 empty model", "/v1/completions", `{"model":"","prompt":"x"}`, 400, "model-missing", "model"},
		{"B033 model of a number", chat, `{"model":123}`, 400, "bad-model", "model"},
		{"B029 duplicate model", chat, `{"model":"cheap","messages":[],"model":"dear"}`, 400, "duplicate-key", "model"},
		{"B029 duplicate messages", chat, `{"model":"m","messages":[],"messages":[]}`, 400, "duplicate-key", "messages"},
		{"B231 deep nesting in an ignored field", chat, `{"model":"m","x":` + strings.Repeat("[", 1e6) + strings.Repeat("]", 1e6-100) + `}`, 400, "too-deep", ""},
		{"too large", chat, strings.Repeat(" ", 2<<20+1), 413, "too-large", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := r.do("POST", c.path, c.body)
			if got.err != nil {
				t.Fatal(got.err)
			}
			checkError(t, got, c.status, c.reason, c.param)
		})
	}
	if n := len(r.seen); n != 0 {
		t.Errorf("%d of them were decided on", n)
	}
	r.counted(2, "4xx", "duplicate-key")
}

// checkError checks that an answer is an OpenAI-shaped error of ours.
func checkError(t *testing.T, got reply, status int, reason, param string) {
	t.Helper()
	if got.status != status || got.header.Get("X-Pointsman-Reason") != reason || got.header.Get("Content-Type") != "application/json" || got.header.Get("X-Request-Id") == "" {
		t.Errorf("%d %v", got.status, got.header)
	}
	var body struct {
		Error struct {
			Message, Type, Code string
			Param               *string
		}
	}
	if err := json.Unmarshal([]byte(got.body), &body); err != nil {
		t.Fatalf("%q: %v", got.body, err)
	}
	have := ""
	if body.Error.Param != nil {
		have = *body.Error.Param
	}
	if body.Error.Message == "" || body.Error.Type == "" || body.Error.Code != strings.ReplaceAll(reason, "-", "_") || have != param {
		t.Errorf("error %s", got.body)
	}
}

// B030, B031: names reach routing and the engine byte by byte.
func TestB031ModelNamesAreVerbatim(t *testing.T) {
	r := newRig(t, []http.Handler{echo()})
	for _, name := range []string{"tweet-summary%-0", "org/name:tag", "Azure/gpt-4", "gpt-4o-2024-08-06", "claude-x-4-6", "unknown"} {
		body := `{"model":"` + name + `","prompt":"x"}`
		if got := r.do("POST", "/v1/completions", body); got.status != 200 || got.body != body {
			t.Error(got)
		}
		if got := r.lastRequest().Model; got != name {
			t.Errorf("routing saw %q for %q", got, name)
		}
	}
}

// B014, B017, B025: bodies of all sizes, with and without Content-Length, arrive
// identical, again and again.
func TestB014BodySizes(t *testing.T) {
	r := newRig(t, []http.Handler{echo()})
	c := client(t)
	for _, size := range []int{0, 1, 61_999, 62_000, 62_001, 65_537, 200_000, 1 << 20, 1_014_506, 5 << 20, 25 << 20} {
		body := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		for _, chunked := range []bool{false, true} {
			var from io.Reader = bytes.NewReader(body)
			if chunked {
				from = struct{ io.Reader }{from}
			}
			got := r.send(c, "POST", "/v1/files", from)
			if got.err != nil || got.status != 200 || got.body != string(body) {
				t.Fatalf("%d bytes, chunked %v: %d, %d bytes, %v", size, chunked, got.status, len(got.body), got.err)
			}
			if l := got.header.Get("X-Got-Length"); l != fmt.Sprint(size) {
				t.Errorf("%d bytes, chunked %v: the engine was told %s", size, chunked, l)
			}
		}
	}
	if r.value("request_bytes_total") == 0 || r.value("request_bytes_total") != r.value("response_bytes_total") {
		t.Error("bytes received and sent:", r.value("request_bytes_total"), r.value("response_bytes_total"))
	}
}

func TestB025RepeatedRequestsAreIdentical(t *testing.T) {
	r := newRig(t, []http.Handler{echo()})
	c := client(t)
	body := `{"model":"m","tools":[{"z":1,"a":2}],"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"}],"top_p":1.0,"n":1e0}`
	for range 100 {
		if got := r.send(c, "POST", "/v1/chat/completions", strings.NewReader(body)); got.body != body {
			t.Fatal(got)
		}
	}
}

// B019: a compressed body is understood and passed on as it is.
func TestB019CompressedBodies(t *testing.T) {
	r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("X-Got-Encoding", q.Header.Get("Content-Encoding"))
		echo().ServeHTTP(w, q)
	})})
	for _, n := range []int{1, 200_000} {
		for _, encoding := range []string{"gzip", "deflate", "zstd", "br"} {
			body := compressed(t, encoding, fmt.Sprintf(`{"model":"m","prompt":"%s"}`, strings.Repeat("hi ", n)))
			got := r.do("POST", "/v1/completions", body, "Content-Encoding", encoding)
			if got.status != 200 || got.body != body || got.header.Get("X-Got-Encoding") != encoding {
				t.Fatal(encoding, got.status, got.header)
			}
			if r.lastRequest().Model != "m" || r.lastText() != strings.Repeat("hi ", n) {
				t.Errorf("%s: not understood", encoding)
			}
		}
	}
	// What cannot be decoded here is routed by load, and never refused for want of a
	// model.
	if got := r.do("POST", "/v1/completions", "opaque", "Content-Encoding", "x-acme"); got.status != 200 || r.lastRequest().Prompt != nil {
		t.Error(got)
	}
	if got := r.tel.Value("pointsman_router_http_unread_encodings_total"); got != 1 {
		t.Errorf("%v encodings are counted as not read", got)
	}
	bomb := compressed(t, "zstd", strings.Repeat(" ", 80<<20))
	checkError(t, r.do("POST", "/v1/completions", bomb, "Content-Encoding", "zstd"), 413, "too-large", "")
	checkError(t, r.do("POST", "/v1/completions", "not gzip", "Content-Encoding", "gzip"), 400, "bad-encoding", "")
}

// B021: an audio form arrives whole, and its model is known.
func TestB021AudioForm(t *testing.T) {
	r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if err := q.ParseMultipartForm(1 << 20); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		defer q.MultipartForm.RemoveAll()
		f, _, err := q.FormFile("file")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		n, _ := io.Copy(io.Discard, f)
		fmt.Fprint(w, q.FormValue("model"), n)
	})})
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	w.WriteField("model", "whisper")
	f, err := w.CreateFormFile("file", "a.mp3")
	if err != nil {
		t.Fatal(err)
	}
	f.Write(bytes.Repeat([]byte{0xff, 0xfb}, 390_000))
	w.Close()
	got := r.do("POST", "/v1/audio/transcriptions", b.String(), "Content-Type", w.FormDataContentType())
	if got.status != 200 || got.body != "whisper780000" || r.lastRequest().Model != "whisper" {
		t.Fatal(got, r.lastRequest().Model)
	}
}

func TestMethodsWithoutBodies(t *testing.T) {
	r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("X-Got", q.Method+" "+q.RequestURI)
		if q.Method != http.MethodHead {
			io.WriteString(w, "body")
		}
	})})
	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS"} {
		got := r.do(method, "/v1/responses/a%2Fb?x=1&y=%20;z", "")
		want := "body"
		if method == "HEAD" {
			want = ""
		}
		if got.err != nil || got.status != 200 || got.body != want || got.header.Get("X-Got") != method+" /v1/responses/a%2Fb?x=1&y=%20;z" {
			t.Error(method, got)
		}
		if r.lastRequest().Prompt != nil || r.lastRequest().MaxOutputTokens != -1 {
			t.Error(method, "was taken for a prompt")
		}
	}
}

// A body above the limit is refused before it is sent, where its length is announced.
func TestTooLargeBodyIsNotAwaited(t *testing.T) {
	r := newRig(t, []http.Handler{echo()}, with(func(c *Config) { c.MaxRequestBytes = 1000 }))
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "POST /v1/files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n")
	got, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 413 ") {
		t.Fatalf("%v %s", err, got)
	}
	// Without a length it is refused as soon as it is too long.
	checkError(t, r.send(client(t), "POST", "/v1/files", struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 1001))}), 413, "too-large", "")
}

func TestExpectContinue(t *testing.T) {
	r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("X-Got-Expect", q.Header.Get("Expect"))
		io.Copy(w, q.Body)
	})})
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "POST /v1/files HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	head := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(conn, head); err != nil || !strings.HasPrefix(string(head), "HTTP/1.1 100 ") {
		t.Fatalf("%v %q", err, head)
	}
	io.WriteString(conn, "hello")
	got, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 200 ") || !strings.HasSuffix(string(got), "hello") || !strings.Contains(string(got), "X-Got-Expect: \r\n") {
		t.Fatalf("%v %s", err, got)
	}
}

// A client that stalls within its body is not waited for for ever.
func TestBodyTimeout(t *testing.T) {
	r := newRig(t, []http.Handler{echo()}, with(func(c *Config) { c.BodyTimeout = ms(50) }))
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello")
	got, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 408 ") {
		t.Fatalf("%v %s", err, got)
	}
	r.counted(1, "4xx", "body-timeout")
}

// A client that leaves within its body is no error and reaches nobody.
func TestClientLeavesWithinItsBody(t *testing.T) {
	r := newRig(t, []http.Handler{echo()})
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello")
	conn.Close()
	waitFor(t, r, func() bool { return r.value("requests_total") == 1 })
	if len(r.seen) != 0 {
		t.Error("it was decided on")
	}
}

// B058: bodies are drained and connections are used again.
func TestB058KeepAlive(t *testing.T) {
	r := newRig(t, []http.Handler{echo()})
	c := client(t)
	conns := make(chan string, 16)
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conns <- addr
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	for i := range 8 {
		body := fmt.Sprintf(`{"model":"m","prompt":"%d"}`, i)
		if got := r.send(c, "POST", "/v1/completions", strings.NewReader(body)); got.status != 200 || got.body != body {
			t.Fatal(got)
		}
	}
	if len(conns) != 1 {
		t.Error("connections:", len(conns))
	}
}

func TestBuffers(t *testing.T) {
	var p bufferPool
	for _, n := range []int{0, 1, 4096, 4097, 16384, 16385, 64 << 20, 64<<20 + 1} {
		b := p.get(n)
		if cap(b.data) < n || len(b.data) != 0 {
			t.Errorf("%d: room for %d", n, cap(b.data))
		}
		b.release()
	}
	for _, size := range []int{0, 1, 4095, 4096, 4097, 300_000} {
		for _, announced := range []int64{-1, int64(size), 1 << 40, 1} {
			data := strings.Repeat("x", size)
			b, err := p.read(strings.NewReader(data), announced, 1<<20, func() {})
			if err != nil || string(b.data) != data {
				t.Fatal(size, announced, err)
			}
			b.release()
		}
	}
	if _, err := p.read(strings.NewReader("12345"), -1, 4, func() {}); !errors.Is(err, errBodyTooLarge) {
		t.Error(err)
	}
	if b, err := p.read(strings.NewReader("1234"), -1, 4, func() {}); err != nil || string(b.data) != "1234" {
		t.Error(err)
	}
}

// All bodies together are bounded: what has no room is refused before it is read, and
// there is room again when others have gone.
func TestBuffersAreBounded(t *testing.T) {
	p := bufferPool{most: 20 << 10}
	held := p.get(4 << 10)
	if _, err := p.read(strings.NewReader(strings.Repeat("x", 17<<10)), -1, 1<<20, func() {}); !errors.Is(err, errBuffersFull) {
		t.Errorf("a body without room: %v", err)
	}
	if got := p.used.Load(); got != 4<<10 {
		t.Errorf("%d bytes in use after a refusal, want those of the one held", got)
	}
	held.release()
	b, err := p.read(strings.NewReader(strings.Repeat("x", 4<<10)), -1, 1<<20, func() {})
	if err != nil {
		t.Fatal(err)
	}
	b.release()
	if got := p.used.Load(); got != 0 {
		t.Errorf("%d bytes in use, want none", got)
	}
}

func TestTooManyBytesOfBodies(t *testing.T) {
	hold, in := make(chan struct{}), make(chan struct{}, 1)
	r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		in <- struct{}{}
		<-hold
		w.WriteHeader(http.StatusOK)
	})}, with(func(c *Config) { c.MaxRequestBytes, c.MaxBufferedBytes = 64<<10, 100<<10 }))
	body := `{"model":"m","prompt":"` + strings.Repeat("x", 60<<10) + `"}`
	first := make(chan reply)
	go func() { first <- r.do(http.MethodPost, "/v1/completions", body) }()
	<-in
	if got := r.do(http.MethodPost, "/v1/completions", body); got.status != http.StatusServiceUnavailable || got.header.Get("x-pointsman-reason") != "buffers-full" || got.header.Get("Retry-After") == "" {
		t.Errorf("status %d, headers %v; want 503", got.status, got.header)
	}
	close(hold)
	if got := <-first; got.status != http.StatusOK {
		t.Errorf("the first: status %d", got.status)
	}
	if got := r.do(http.MethodPost, "/v1/completions", body); got.status != http.StatusOK {
		t.Errorf("afterwards: status %d", got.status)
	}
}

// Requests at once have a limit; what is above it is told so, and the next is served.
func TestMaxRequests(t *testing.T) {
	in, hold := make(chan struct{}, 3), make(chan struct{})
	r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		in <- struct{}{}
		<-hold
		w.WriteHeader(http.StatusNoContent)
	})}, with(func(c *Config) { c.MaxRequests = 2 }))
	body := `{"model":"m","prompt":"x"}`
	under := make(chan reply, 2)
	for range 2 {
		go func() { under <- r.do(http.MethodPost, "/v1/completions", body) }()
		<-in
	}
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		got := r.do(method, "/v1/models", "")
		if got.status != http.StatusServiceUnavailable || got.header.Get(edge.HeaderReason) != "too-many" || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: status %d, headers %v; want 503", method, got.status, got.header)
		}
	}
	r.counted(2, "5xx", "too-many")
	close(hold)
	for range 2 {
		if got := <-under; got.status != http.StatusNoContent {
			t.Errorf("a request below the limit: status %d", got.status)
		}
	}
	if got := r.do(http.MethodPost, "/v1/completions", body); got.status != http.StatusNoContent {
		t.Errorf("afterwards: status %d", got.status)
	}
}

// A buffer is not used again before everybody has let go of it.
func TestBuffersAreHeld(t *testing.T) {
	var p bufferPool
	b := p.get(10)
	b.data = append(b.data, "hello"...)
	r := newBodyReader(b)
	b.release()
	if b.holders.Load() != 1 {
		t.Fatal("holders:", b.holders.Load())
	}
	got, err := io.ReadAll(r)
	if err != nil || string(got) != "hello" {
		t.Fatal(err)
	}
	r.Close()
	r.Close()
	if b.holders.Load() != 0 {
		t.Fatal("holders:", b.holders.Load())
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

// compressed returns text in a content encoding.
func compressed(t *testing.T, encoding, text string) string {
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
	default:
		z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
