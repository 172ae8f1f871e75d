package httpproxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reservation counts what is done with it.
type reservation struct {
	mu          sync.Mutex
	on          []roster.ID
	firstTokens int
	finished    int
	completed   bool
	usage       route.Usage
}

func (r *reservation) PickID() string { return "pick" }
func (r *reservation) FirstToken()    { r.mu.Lock(); r.firstTokens++; r.mu.Unlock() }
func (r *reservation) Move(to *roster.Endpoint) {
	r.mu.Lock()
	r.on = append(r.on, to.ID)
	r.mu.Unlock()
}

func (r *reservation) Finish(completed bool, u route.Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished++
	r.completed, r.usage = completed, u
}

// rig is a proxy with engines behind it; it decides, and hears how endpoints do.
type rig struct {
	t          *testing.T
	tel        *telemetry.Telemetry
	proxy      *Proxy
	addr       string
	roster     *roster.Roster
	engines    []*httptest.Server
	engineIdle time.Duration             // how long engines keep connections; 0: for ever
	fallbacks  int                       // of a decision
	sessions   []string                  // headers that a decision wants tokens in
	err        error                     // of a decision
	deaf       bool                      // to what requests say of attempts before
	decide     func(ctx context.Context) // called in each decision
	plan       func(d *route.Decision, all []roster.Endpoint)
	policy     Policy
	salt       *edge.Salter
	stop       func()

	mu           sync.Mutex
	seen         []*route.Request
	texts        []string
	reservations []*reservation
	failed       []string
	succeeded    []string
}

type option func(r *rig, c *Config)

func with(f func(c *Config)) option { return func(_ *rig, c *Config) { f(c) } }

// newRig starts a proxy in front of the engines, which are picked in their order. A nil
// one is not there.
func newRig(t *testing.T, engines []http.Handler, opts ...option) *rig {
	t.Helper()
	r := &rig{t: t, tel: telemetry.Discard(), fallbacks: 10}
	cfg := DefaultConfig()
	cfg.Address = "127.0.0.1:0"
	for _, o := range opts {
		o(r, &cfg)
	}
	for _, h := range engines {
		s := httptest.NewUnstartedServer(h)
		s.Config.IdleTimeout = r.engineIdle
		s.Start()
		if h == nil {
			s.Close() // nobody listens there
		}
		r.engines = append(r.engines, s)
	}
	r.roster = roster.New(roster.Config{})
	r.setModels(nil)
	var err error
	if r.proxy, err = New(r, r.roster, r, r.tel, cfg); err != nil {
		t.Fatal(err)
	}
	r.proxy.Salt(r.salt)
	if r.policy != nil {
		r.proxy.Heed(r.policy)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done, ready := make(chan error, 1), make(chan struct{})
	ctx = run.WithAnnounce(ctx, func(_, _, addr string) { r.addr = addr })
	go func() { done <- r.proxy.Part(io.Discard)(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the part ended with %v", err)
		}
	})
	t.Cleanup(func() {
		r.stop()
		for _, s := range r.engines {
			s.CloseClientConnections()
			s.Close()
		}
		r.settled()
	})
	return r
}

// setModels makes the roster's table; models are those of the first endpoint.
func (r *rig) setModels(models []string) {
	var list []roster.Endpoint
	for i, s := range r.engines {
		host, port, err := net.SplitHostPort(s.Listener.Addr().String())
		if err != nil {
			r.t.Fatal(err)
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			r.t.Fatal(err)
		}
		e := roster.Endpoint{ID: roster.ID(fmt.Sprintf("e%d", i)), Host: host, Port: uint16(n)}
		if i == 0 {
			e.Models = models
		}
		list = append(list, e)
	}
	t, err := roster.NewTable(list)
	if err != nil {
		r.t.Fatal(err)
	}
	r.roster.SetTable(t)
}

// Decide picks the first endpoint that has not failed.
func (r *rig) Decide(ctx context.Context, q *route.Request) *route.Decision {
	if r.decide != nil {
		r.decide(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, q)
	text := ""
	if q.Prompt != nil {
		text = q.Prompt.Text()
		q.Prompt.Blocks(64, 256)
	}
	r.texts = append(r.texts, text)
	d := &route.Decision{Request: q, Err: r.err, Pool: "p", SessionHeaders: r.sessions}
	if d.Err != nil {
		return d
	}
	table := r.roster.Snapshot().Table
	for i := range table.Endpoints {
		e := &table.Endpoints[i]
		switch {
		case contains(r.failed, string(e.ID)), !r.deaf && q.Retry != nil && slices.Contains(q.Retry.Failed, e.ID):
		case d.Endpoint == nil:
			d.Endpoint = e
		case len(d.Fallbacks) < r.fallbacks:
			d.Fallbacks = append(d.Fallbacks, e)
		}
	}
	if d.Endpoint == nil { // all have failed: all are in again
		d.Endpoint = &table.Endpoints[0]
	}
	res := &reservation{on: []roster.ID{d.Endpoint.ID}}
	r.reservations = append(r.reservations, res)
	d.Reservation = res
	if r.plan != nil {
		r.plan(d, table.Endpoints)
	}
	return d
}

func contains(list []string, id string) bool {
	for _, s := range list {
		if strings.HasPrefix(s, id+":") {
			return true
		}
	}
	return false
}

func (r *rig) Failed(id roster.ID, reason string) {
	r.mu.Lock()
	r.failed = append(r.failed, string(id)+": "+reason)
	r.mu.Unlock()
}

func (r *rig) Succeeded(id roster.ID) {
	r.mu.Lock()
	r.succeeded = append(r.succeeded, string(id))
	r.mu.Unlock()
}

// settled checks that the books balance: every reservation was ended exactly once, at
// most one first token was told of, nothing is in flight.
func (r *rig) settled() {
	r.t.Helper()
	kittest.Eventually(r.t, "nothing is in flight", func() bool { return r.value("requests_in_flight") == 0 })
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, res := range r.reservations {
		res.mu.Lock()
		if res.finished != 1 || res.firstTokens > 1 {
			r.t.Errorf("reservation %d was ended %d times and told of %d first tokens", i, res.finished, res.firstTokens)
		}
		res.mu.Unlock()
	}
}

// outcome waits for the only, or last, reservation to be ended.
func (r *rig) outcome() *reservation {
	r.t.Helper()
	var res *reservation
	kittest.Eventually(r.t, "the reservation is ended", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.reservations) == 0 {
			return false
		}
		res = r.reservations[len(r.reservations)-1]
		res.mu.Lock()
		defer res.mu.Unlock()
		return res.finished > 0
	})
	return res
}

func (r *rig) value(name string, labels ...string) float64 {
	return r.tel.Value("pointsman_router_http_"+name, labels...)
}

// counted waits until requests with this end were counted.
func (r *rig) counted(n float64, code, reason string) {
	r.t.Helper()
	kittest.Eventually(r.t, fmt.Sprintf("%v requests ended %s, %s", n, code, reason), func() bool {
		return r.value("requests_total", "code", code, "reason", reason) == n
	})
}

func (r *rig) url(path string) string { return "http://" + r.addr + path }

func (r *rig) lastText() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.texts[len(r.texts)-1]
}

func (r *rig) lastRequest() *route.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[len(r.seen)-1]
}

func (r *rig) failures() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.failed...)
}

// client returns an HTTP/1.1 client of its own connections.
func client(t *testing.T) *http.Client {
	tr := &http.Transport{DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// do sends a request and reads the whole answer.
func (r *rig) do(method, path, body string, headers ...string) reply {
	r.t.Helper()
	return r.send(client(r.t), method, path, strings.NewReader(body), headers...)
}

func (r *rig) send(c *http.Client, method, path string, body io.Reader, headers ...string) reply {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, r.url(path), body)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header[headers[i]] = append(q.Header[headers[i]], headers[i+1])
	}
	resp, err := c.Do(q)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(got), err}
}

func (r *rig) chat(headers ...string) reply {
	r.t.Helper()
	return r.do("POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, headers...)
}

// echo is an engine that answers with what it got.
func echo() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("X-Got-Length", strconv.FormatInt(r.ContentLength, 10))
		w.Write(body)
	})
}

func answer200(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, body)
	})
}

func status(code int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(code)
		io.WriteString(w, body)
	})
}

// abort is an engine that reads the request and then breaks the connection.
func abort() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	})
}

// events is an engine that streams what comes on the channel and ends when it is
// closed. A "!" breaks the connection.
func events(ch <-chan string, left chan<- error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case e, ok := <-ch:
				if !ok {
					return
				}
				if e == "!" {
					panic(http.ErrAbortHandler)
				}
				io.WriteString(w, e)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				left <- r.Context().Err()
				return
			}
		}
	})
}

func ms(n int) conf.Duration { return conf.Duration(time.Duration(n) * time.Millisecond) }
