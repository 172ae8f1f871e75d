package httpproxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func waitFor(t *testing.T, _ *rig, f func() bool) {
	t.Helper()
	kittest.Eventually(t, "the condition", f)
}

// open begins a streamed request and returns the answer as soon as its head is there.
func (r *rig) open(c *http.Client, body string) (*http.Response, context.CancelFunc) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	r.t.Cleanup(cancel)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url("/v1/chat/completions"), strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := c.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp, cancel
}

const streamBody = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`

// B035, B036: what comes is passed on at once, cut as it came, and usage is read from
// events that are cut and from one before [DONE].
func TestB036StreamsAreNotHeldBack(t *testing.T) {
	ch := make(chan string)
	r := newRig(t, []http.Handler{events(ch, make(chan error, 1))})
	parts := []string{
		"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
		"data: {\"id\":\"x\",\"cho", "ices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n",
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n", "\n",
		"data: [DONE]\n\n",
	}
	go func() { ch <- parts[0] }()
	resp, _ := r.open(client(t), streamBody)
	defer resp.Body.Close()
	for i, part := range parts {
		if i > 0 {
			ch <- part // the engine sends no more before this has come through
		}
		got := make([]byte, len(part))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != part {
			t.Fatalf("%q %v", got, err)
		}
		// The role alone is no token; the first generated one is told of once.
		want := 0
		if i >= 2 {
			want = 1
		}
		res := r.reservations[0]
		res.mu.Lock()
		if res.firstTokens != want {
			t.Errorf("first tokens after part %d: %d", i, res.firstTokens)
		}
		res.mu.Unlock()
	}
	close(ch)
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 0 {
		t.Fatalf("%q %v", rest, err)
	}
	res := r.outcome()
	if diff := cmp.Diff(route.Usage{PromptTokens: 7, CachedPromptTokens: 4, OutputTokens: 2}, res.usage); diff != "" || !res.completed {
		t.Error(res.completed, diff)
	}
	if resp.Header.Get("X-Pointsman-Endpoint") != r.engines[0].Listener.Addr().String() || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Error(resp.Header)
	}
	r.counted(1, "2xx", "ok")
	if r.value("first_byte_seconds") != 1 || r.value("request_seconds", "code", "2xx") != 1 {
		t.Error("times were not recorded")
	}
}

func TestUsageOfJSON(t *testing.T) {
	r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"model":"base","usage":{"prompt_tokens":11,"completion_tokens":100}}`) // B042: another model's name
	})})
	if got := r.chat(); got.status != 200 || got.body != `{"model":"base","usage":{"prompt_tokens":11,"completion_tokens":100}}` {
		t.Fatal(got)
	}
	res := r.outcome()
	if diff := cmp.Diff(route.Usage{PromptTokens: 11, CachedPromptTokens: -1, OutputTokens: 100}, res.usage); diff != "" || !res.completed || res.firstTokens != 1 {
		t.Error(res.completed, res.firstTokens, diff)
	}
}

// B041: answers that are not JSON, errors and empty ones arrive unchanged.
func TestB041AnswersArriveUnchanged(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		typ    string
		body   string
	}{
		{"503 text", 503, "text/plain", "no healthy upstream"},
		{"502 HTML", 502, "text/html", "<html>bad gateway</html>"},
		{"204 nothing", 204, "", ""},
		{"500 without a type", 500, "", "<html>nobody said that this is HTML</html>"},
		{"200 nothing", 200, "application/json", ""},
		{"404", 404, "application/json", `{"detail":"Not Found"}`},
		{"429", 429, "application/json", `{"error":{}}`},
		{"400 with JSON that is not", 400, "application/json", "no healthy upstream"},
		{"302", 302, "text/plain", "elsewhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				io.Copy(io.Discard, q.Body)
				w.Header()["Content-Type"] = nil
				if c.typ != "" {
					w.Header().Set("Content-Type", c.typ)
				}
				w.Header().Set("X-Own", "kept")
				w.Header()["Location"] = []string{"/there"}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			})})
			hc := client(t)
			hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			got := r.send(hc, "POST", "/v1/chat/completions", strings.NewReader(streamBody))
			if got.err != nil || got.status != c.status || got.body != c.body || got.header.Get("Content-Type") != c.typ || got.header.Get("X-Own") != "kept" {
				t.Fatal(got)
			}
			if res := r.outcome(); res.completed != (c.status < 400) {
				t.Error("completed:", res.completed)
			}
		})
	}
}

// B051: lines of any length are delivered whole.
func TestB051LongLines(t *testing.T) {
	for _, n := range []int{100_000, 1_500_000} {
		line := `data: {"choices":[{"delta":{"tool_calls":[{"arguments":"` + strings.Repeat("a", n) + `"}]}}],"usage":{"prompt_tokens":3}}` + "\n\n"
		r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, line)
		})})
		if got := r.chat(); got.body != line {
			t.Fatal(len(got.body), got.err)
		}
		if u := r.outcome().usage; u.PromptTokens != 3 {
			t.Error(u)
		}
	}
}

// B062: compressed answers keep their bytes and their headers.
func TestB062CompressedAnswers(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, strings.Repeat("0123456789", 92_878))
	z.Close()
	r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", fmt.Sprint(b.Len()))
		w.Header().Set("X-Got-Accept", q.Header.Get("Accept-Encoding"))
		w.Write(b.Bytes())
	})})
	got := r.chat("Accept-Encoding", "gzip, br")
	if got.err != nil || got.body != b.String() || got.header.Get("Content-Encoding") != "gzip" || got.header.Get("Content-Length") != fmt.Sprint(b.Len()) || got.header.Get("X-Got-Accept") != "gzip, br" {
		t.Fatal(got.status, got.header, got.err)
	}
	if got := r.chat(); got.header.Get("X-Got-Accept") != "" {
		t.Error("an Accept-Encoding was made up:", got.header)
	}
	if u := r.outcome().usage; u != route.NoUsage() {
		t.Error(u)
	}
}

// B053, B212: a client that leaves mid-stream ends the work upstream; the books say so.
func TestB053ClientLeaves(t *testing.T) {
	ch, left := make(chan string), make(chan error, 1)
	r := newRig(t, []http.Handler{events(ch, left)})
	go func() { ch <- "data: {}\n\n" }()
	resp, cancel := r.open(client(t), streamBody)
	if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	resp.Body.Close()
	if err := <-left; err == nil {
		t.Fatal("the engine was not told")
	}
	if res := r.outcome(); res.completed {
		t.Error("counted as completed")
	}
	r.counted(1, "2xx", "cancelled")
	if f := r.failures(); len(f) != 0 {
		t.Error("held against the endpoint:", f)
	}
}

// A client that leaves on the word that ends a stream has had all of it.
func TestClientLeavesWhenTheStreamSaysItIsDone(t *testing.T) {
	ch, left := make(chan string), make(chan error, 1)
	r := newRig(t, []http.Handler{events(ch, left)})
	all := "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n"
	go func() { ch <- all }()
	resp, cancel := r.open(client(t), streamBody)
	if _, err := io.ReadFull(resp.Body, make([]byte, len(all))); err != nil {
		t.Fatal(err)
	}
	cancel()
	resp.Body.Close()
	<-left
	if res := r.outcome(); !res.completed || res.usage.PromptTokens != 7 {
		t.Errorf("the outcome is %+v", res)
	}
	r.counted(1, "2xx", "ok")
}

// A client that leaves before the first byte, too.
func TestClientLeavesBeforeTheFirstByte(t *testing.T) {
	ch, left := make(chan string), make(chan error, 1)
	r := newRig(t, []http.Handler{events(ch, left), echo()})
	ctx, cancel := context.WithCancel(context.Background())
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url("/v1/chat/completions"), strings.NewReader(streamBody))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := client(t).Do(q)
		done <- err
	}()
	waitFor(t, r, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.reservations) == 1 })
	cancel()
	<-done
	<-left
	if res := r.outcome(); res.completed {
		t.Error("counted as completed")
	}
	r.counted(1, "none", "cancelled")
	if f := r.failures(); len(f) != 0 || r.value("retries_total") != 0 {
		t.Error("held against the endpoint:", f)
	}
}

// A client that has reset its request, or goes while its body is read, costs no decision: HTTP/2
// lets one client do so as fast as it can send.
func TestRequestsOfClientsThatHaveGoneAreNotDecided(t *testing.T) {
	r := newRig(t, []http.Handler{echo()})
	for name, leaveAfter := range map[string]int{"before its turn": 0, "with the last byte of its body": len(streamBody)} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			body := &leavingBody{Reader: strings.NewReader(streamBody), after: leaveAfter, leave: cancel}
			q := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", body)
			if leaveAfter == 0 {
				cancel()
			}
			defer func() {
				if got := recover(); got != http.ErrAbortHandler { //nolint:errorlint // a panic's value, compared as net/http does
					t.Error("the handler ended with", got)
				}
				if len(r.seen) != 0 {
					t.Error("a decision was made")
				}
			}()
			r.proxy.ServeHTTP(httptest.NewRecorder(), q)
		})
	}
	r.counted(2, "none", "cancelled")
}

// leavingBody is a body whose client leaves after so many bytes.
type leavingBody struct {
	io.Reader
	after, sent int
	leave       func()
}

func (b *leavingBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.sent += n; b.after > 0 && b.sent >= b.after {
		b.leave()
	}
	return n, err
}

// B055, B076: an answer that breaks off after its first byte is not repeated and not
// ended cleanly; a stream says so in an event.
func TestAnswerBreaksOff(t *testing.T) {
	for _, c := range []struct {
		name, typ, sent string
		length          string
		wantEvent       bool
	}{
		{"stream", "text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"cho", "", true},
		{"JSON", "application/json", `{"choices":[`, "", false},
		{"JSON with a length", "application/json", `{"choices":[`, "1000", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				io.Copy(io.Discard, q.Body)
				w.Header().Set("Content-Type", c.typ)
				if c.length != "" {
					w.Header().Set("Content-Length", c.length)
				}
				io.WriteString(w, c.sent)
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}), echo()})
			got := r.chat()
			if got.err == nil {
				t.Fatal("the client takes it for a complete answer:", got.body)
			}
			rest, ok := strings.CutPrefix(got.body, c.sent)
			if !ok {
				t.Fatal("lost:", got.body)
			}
			if c.wantEvent {
				event, ok := strings.CutPrefix(strings.TrimSpace(rest), "data: ")
				var body struct{ Error struct{ Code string } }
				if err := json.Unmarshal([]byte(event), &body); !ok || err != nil || body.Error.Code != "reset" || !strings.HasPrefix(rest, "\n\n") || !strings.HasSuffix(rest, "\n\n") {
					t.Errorf("%q", rest)
				}
			} else if rest != "" {
				t.Errorf("%q", rest)
			}
			if res := r.outcome(); res.completed || len(res.on) != 1 {
				t.Error("completed or moved:", res.completed, res.on)
			}
			r.counted(1, "2xx", "reset")
			if r.value("retries_total") != 0 {
				t.Error("it was repeated")
			}
		})
	}
}

// An engine that falls silent is given up after the idle time-out, visibly.
func TestIdleTimeout(t *testing.T) {
	ch, left := make(chan string, 1), make(chan error, 1)
	r := newRig(t, []http.Handler{events(ch, left)}, with(func(c *Config) { c.IdleTimeout = ms(700) }))
	ch <- "data: {\"choices\":[{\"text\":\"a\"}]}\n\n"
	got := r.chat()
	if got.err == nil || !strings.Contains(got.body, `"idle_timeout"`) {
		t.Fatal(got)
	}
	<-left
	r.counted(1, "2xx", "idle-timeout")
	if res := r.outcome(); res.completed || res.firstTokens != 1 {
		t.Error(res.completed, res.firstTokens)
	}
}

// An error answer that is too long to be kept is passed on like any other: the time to
// the first byte is over, and silence is silence.
func TestIdleTimeoutInALongErrorAnswer(t *testing.T) {
	left := make(chan struct{})
	r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		defer close(left)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, strings.Repeat("x", savedMax+1))
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
	}), answer200("x")}, with(func(c *Config) { c.IdleTimeout = ms(300) }))
	if got := r.chat(); got.err == nil || got.status != http.StatusServiceUnavailable {
		t.Fatal(got)
	}
	<-left
	r.counted(1, "5xx", "idle-timeout")
	if n := r.value("first_byte_seconds"); n != 1 {
		t.Errorf("%v first bytes, want 1", n)
	}
}

// B060: only silence is limited, not the whole.
func TestB060NoLimitOnTheWhole(t *testing.T) {
	ch := make(chan string)
	r := newRig(t, []http.Handler{events(ch, make(chan error, 1))}, with(func(c *Config) { c.FirstByteTimeout, c.IdleTimeout = ms(1500), ms(1500) }))
	go func() {
		for range 12 {
			ch <- "data: {}\n\n"
			time.Sleep(150 * time.Millisecond) // together longer than either limit
		}
		close(ch)
	}()
	got := r.chat()
	if got.err != nil || got.body != strings.Repeat("data: {}\n\n", 12) {
		t.Fatal(got)
	}
	if d := DefaultConfig(); d.FirstByteTimeout.D() < 5*time.Minute || d.IdleTimeout.D() < time.Minute {
		t.Error("the defaults cut long generations off:", d.FirstByteTimeout, d.IdleTimeout)
	}
}

func TestTrailers(t *testing.T) {
	r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum, X-Pointsman-Endpoint")
		io.WriteString(w, "body")
		w.(http.Flusher).Flush()
		w.Header().Set("X-Sum", "42")
		w.Header().Set("X-Pointsman-Endpoint", "elsewhere") // ours to say
	})})
	resp, _ := r.open(client(t), streamBody)
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "body" || resp.Trailer.Get("X-Sum") != "42" || len(resp.Trailer) != 1 {
		t.Fatal(string(b), err, resp.Trailer)
	}
}

// Clients may speak HTTP/2 without TLS; streams and disconnects work alike.
func TestHTTP2(t *testing.T) {
	ch, left := make(chan string), make(chan error, 1)
	r := newRig(t, []http.Handler{events(ch, left)})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: protocols, DisableCompression: true}
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr}
	go func() { ch <- "data: {}\n\n" }()
	resp, cancel := r.open(c, streamBody)
	if resp.ProtoMajor != 2 {
		t.Error(resp.Proto)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	resp.Body.Close()
	<-left
	r.counted(1, "2xx", "cancelled")

	go func() { ch <- "data: {}\n\n"; ch <- "!" }()
	resp, _ = r.open(c, streamBody)
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("ended cleanly after %q", b)
	}
	r.counted(1, "2xx", "reset")
}

// A client that takes nothing is given up after a while, and the work with it.
func TestClientThatDoesNotRead(t *testing.T) {
	left := make(chan struct{})
	r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		io.Copy(io.Discard, q.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		event := "data: {\"choices\":[{\"text\":\"" + strings.Repeat("a", 60_000) + "\"}]}\n\n"
		for q.Context().Err() == nil {
			if _, err := io.WriteString(w, event); err != nil {
				break
			}
			w.(http.Flusher).Flush()
		}
		close(left)
	})}, with(func(c *Config) { c.IdleTimeout = ms(700) }))
	resp, _ := r.open(client(t), streamBody)
	defer resp.Body.Close()
	<-left
	if res := r.outcome(); res.completed || res.firstTokens != 1 {
		t.Error(res.completed, res.firstTokens)
	}
	r.counted(1, "2xx", "cancelled")
}
