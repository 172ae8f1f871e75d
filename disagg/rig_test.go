package disagg

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// got is a request that an engine has got.
type got struct {
	path, host, id string
	ids            int
	header         http.Header
	body           string
}

// engine is a model server.
type engine struct {
	Endpoint
	server *httptest.Server

	mu    sync.Mutex
	seen  []got
	conns map[net.Conn]http.ConnState
}

// newEngine starts one that answers as play says, nil: nobody listens there.
func newEngine(t *testing.T, name string, play http.HandlerFunc) *engine {
	t.Helper()
	e := &engine{conns: make(map[net.Conn]http.ConnState)}
	e.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		e.mu.Lock()
		e.seen = append(e.seen, got{r.URL.RequestURI(), r.Host, r.Header.Get(headerRequestID), len(r.Header[headerRequestID]), r.Header, string(raw)})
		e.mu.Unlock()
		play(w, r)
	}))
	e.server.Config.ConnState = func(c net.Conn, s http.ConnState) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if s == http.StateClosed {
			delete(e.conns, c)
		} else {
			e.conns[c] = s
		}
	}
	e.server.Start()
	t.Cleanup(e.server.Close)
	e.Endpoint = Endpoint{ID: name, Scheme: "http", Address: e.server.Listener.Addr().String()}
	if play == nil {
		e.server.Close()
	}
	return e
}

// requests returns what came so far.
func (e *engine) requests() []got {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]got(nil), e.seen...)
}

// busy returns how many connections are not idle.
func (e *engine) busy() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, s := range e.conns {
		if s == http.StateActive {
			n++
		}
	}
	return n
}

// watched records what a Watcher is told.
type watched struct {
	mu     sync.Mutex
	events []string
	open   int
}

func (w *watched) add(s string, open int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, s)
	w.open += open
}

func (w *watched) PrefillBegins(e Endpoint)   { w.add("begin "+e.ID, 1) }
func (w *watched) PrefillEnds(a Attempt)      { w.add("end "+a.Endpoint.ID+" "+string(a.Reason), -1) }
func (w *watched) PrefillsHere(reason Reason) { w.add("here "+string(reason), 0) }

// told waits until nothing is open and returns what the watcher was told.
func (w *watched) told(t *testing.T) []string {
	t.Helper()
	eventually(t, "all prefill legs have ended", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.open == 0
	})
	return w.events
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// rig is a runner, and what it has to do with.
type rig struct {
	t         *testing.T
	transport *http.Transport
	runner    *Runner
	plan      Plan
	path      string
	body      string
	header    http.Header
	watch     *watched
	retained  int // readers of the body that are open
	mu        sync.Mutex
}

func newRig(t *testing.T, c Connector, prefill ...*engine) *rig {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	r := &rig{
		t: t, path: "/v1/chat/completions?x=1", body: `{"model":"m","messages":[],"max_tokens":50,"seed":9007199254740993}`, watch: &watched{},
		transport: &http.Transport{DisableCompression: true, Protocols: protocols},
		plan:      Plan{Connector: c, Policy: Policy{OnFailure: []Action{RetryOther, Fail}, Timeout: 10 * time.Second, Budget: 20 * time.Second}},
		header:    http.Header{"Authorization": {"Bearer x"}, "X-Request-Id": {"client-1", "again"}, "Accept-Encoding": {"gzip"}, "Content-Digest": {"sha-256=:x:"}, "Content-Type": {"application/json"}},
	}
	for _, e := range prefill {
		r.plan.Prefill = append(r.plan.Prefill, e.Endpoint)
	}
	var err error
	if r.runner, err = NewRunner(&Steady{Transport: r.transport}, DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.transport.CloseIdleConnections()
		eventually(t, "all readers of the body are closed", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.retained == 0 })
	})
	return r
}

// request returns the request as it stands.
func (r *rig) request() *Request {
	u, err := url.Parse(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	return &Request{URL: u, Header: r.header, ID: "client-1", Body: []byte(r.body), Retain: func() func() {
		r.mu.Lock()
		r.retained++
		r.mu.Unlock()
		return func() { r.mu.Lock(); r.retained--; r.mu.Unlock() }
	}}
}

// reply is what a client would have got.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // of sending or of reading
	report Report
}

// do carries the request out.
func (r *rig) do(decode *engine) reply { return r.doCtx(context.Background(), decode) }

func (r *rig) doCtx(ctx context.Context, decode *engine) reply {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	resp, run, err := r.runner.Do(ctx, &r.plan, r.request(), decode.Endpoint, r.watch)
	if err != nil {
		out := reply{err: err}
		if run != nil {
			out.report = run.Report()
		}
		return out
	}
	raw, err := io.ReadAll(resp.Body)
	if e := resp.Body.Close(); e != nil {
		r.t.Errorf("close: %v", e)
	}
	return reply{resp.StatusCode, resp.Header, string(raw), err, run.Report()}
}

const transferred = `{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1,2]],"remote_engine_id":"e","remote_host":"127.0.0.1","remote_port":5600,"big":9007199254740993}`

func answers(status int, contentType, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// prefills is an engine that has 7 tokens of the prompt cached.
func prefills() http.HandlerFunc {
	return answers(200, "application/json", `{"choices":[{"finish_reason":"length"}],"usage":{"prompt_tokens":50,"prompt_tokens_details":{"cached_tokens":7}},"kv_transfer_params":`+transferred+`}`)
}

// decodes is an engine that finds all of a transferred prompt cached.
func decodes() http.HandlerFunc {
	return answers(200, "application/json", `{"id":9007199254740993,"choices":[{"text":"hello"}],"usage":{"prompt_tokens":50,"prompt_tokens_details":{"cached_tokens":49}}}`)
}

// hangs is an engine that answers when the caller has gone, and tells the channel.
func hangs(left chan<- struct{}) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		left <- struct{}{}
	}
}

// breaks is an engine that breaks the connection.
func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func isPrefillError(err error, want Reason) bool {
	var e *PrefillError
	return errors.As(err, &e) && e.Attempt.Reason == want && strings.Contains(e.Error(), string(want))
}
