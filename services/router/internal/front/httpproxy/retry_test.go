package httpproxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// close200 sends the head of a good answer and then breaks the connection.
func close200() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
}

// silent is an engine that takes a request and never answers.
func silent() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
}

// Whatever fails before the first byte of a body is made good by the next endpoint.
func TestRetries(t *testing.T) {
	for _, c := range []struct {
		name    string
		engines []http.Handler
		opts    []option
		reasons map[string]float64
		on      []roster.ID
	}{
		{"reset before the head", []http.Handler{abort(), answer200("x")}, nil, map[string]float64{"reset": 1}, []roster.ID{"e0", "e1"}},
		{"B055 head, then nothing", []http.Handler{close200(), answer200("x")}, nil, map[string]float64{"reset": 1}, []roster.ID{"e0", "e1"}},
		{"503", []http.Handler{status(503, "busy"), answer200("x")}, nil, map[string]float64{"bad-answer": 1}, []roster.ID{"e0", "e1"}},
		{"500", []http.Handler{status(500, ""), answer200("x")}, nil, map[string]float64{"bad-answer": 1}, []roster.ID{"e0", "e1"}},
		{"no connection", []http.Handler{nil, answer200("x")}, nil, map[string]float64{"connect-failed": 1}, []roster.ID{"e0", "e1"}},
		{"three in a row", []http.Handler{nil, abort(), status(502, ""), answer200("x")}, nil, map[string]float64{"connect-failed": 1, "reset": 1, "bad-answer": 1}, []roster.ID{"e0", "e1", "e2", "e3"}},
		{"B055 stall", []http.Handler{silent(), answer200("x")}, []option{with(func(c *Config) { c.FirstByteTimeout, c.RetryTimeouts = ms(2000), true })},
			map[string]float64{"first-byte-timeout": 1}, []roster.ID{"e0", "e1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.engines, c.opts...)
			got := r.chat()
			last := c.on[len(c.on)-1]
			if got.err != nil || got.status != 200 || got.header.Get("X-Pointsman-Endpoint") != r.address(last) {
				t.Fatal(got)
			}
			for why, n := range c.reasons {
				if have := r.value("retries_total", "reason", why); have != n {
					t.Errorf("retries for %s: %v, want %v", why, have, n)
				}
			}
			if have := r.value("retries_total"); have != float64(len(c.on)-1) {
				t.Error("retries:", have)
			}
			res := r.outcome()
			if diff := cmp.Diff(c.on, res.on); diff != "" || !res.completed || len(r.reservations) != 1 {
				t.Error(res.completed, len(r.reservations), diff)
			}
			if len(r.failures()) != len(c.on)-1 || len(r.succeeded) != 1 || r.succeeded[0] != string(last) {
				t.Error(r.failures(), r.succeeded)
			}
		})
	}
}

func (r *rig) address(id roster.ID) string {
	table := r.roster.Snapshot().Table
	pos, _ := table.Position(id)
	return table.Endpoints[pos].Address
}

// When the fall-backs are used up, a new decision is made; no endpoint is tried twice.
func TestRetriesBeyondTheFallbacks(t *testing.T) {
	r := newRig(t, []http.Handler{status(503, "a"), status(503, "b"), answer200("x")}, func(r *rig, _ *Config) { r.fallbacks = 0 })
	if got := r.chat(); got.status != 200 || got.body != "x" {
		t.Fatal(got)
	}
	r.outcome()
	if len(r.reservations) != 3 || r.value("retries_total") != 2 {
		t.Error(len(r.reservations), r.value("retries_total"))
	}
	for i, res := range r.reservations {
		if res.completed != (i == 2) {
			t.Errorf("reservation %d completed: %v", i, res.completed)
		}
	}
}

// When all have failed the client gets the last answer that there was, as it was.
func TestAllFail(t *testing.T) {
	long := strings.Repeat("x", savedMax+1)
	for _, c := range []struct {
		name    string
		engines []http.Handler
		opts    []option
		status  int
		body    string // "": an error of ours
		reason  string
		from    roster.ID
		tries   int
	}{
		{"last answer", []http.Handler{status(500, "first"), status(503, "second")}, nil, 503, "second", "bad-answer", "e1", 2},
		{"an answer, then resets", []http.Handler{status(503, "busy"), abort(), nil}, nil, 503, "busy", "bad-answer", "e0", 3},
		{"only resets", []http.Handler{abort(), abort()}, nil, 502, "", "reset", "e1", 2},
		{"nobody there", []http.Handler{nil}, nil, 502, "", "connect-failed", "e0", 1},
		{"long answers are passed on at once", []http.Handler{status(503, long), answer200("x")}, nil, 503, long, "bad-answer", "e0", 1},
		{"at most so many", []http.Handler{abort(), abort(), abort(), answer200("x")}, []option{with(func(c *Config) { c.Retries = 2 })}, 502, "", "reset", "e2", 3},
		{"none at all", []http.Handler{status(503, "a"), answer200("x")}, []option{with(func(c *Config) { c.Retries = 0 })}, 503, "a", "bad-answer", "e0", 1},
		{"status left out", []http.Handler{status(500, "a"), answer200("x")}, []option{with(func(c *Config) { c.RetryStatuses = []int{503} })}, 500, "a", "bad-answer", "e0", 1},
		{"429 is an answer", []http.Handler{status(429, "a"), answer200("x")}, nil, 429, "a", "ok", "e0", 1},
		{"400 is an answer", []http.Handler{status(400, "a"), answer200("x")}, nil, 400, "a", "ok", "e0", 1},
		{"501 is an answer", []http.Handler{status(501, "a"), answer200("x")}, nil, 501, "a", "bad-answer", "e0", 1},
		{"slow head", []http.Handler{silent(), answer200("x")}, []option{with(func(c *Config) { c.FirstByteTimeout = ms(80) })}, 504, "", "first-byte-timeout", "e0", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.engines, c.opts...)
			got := r.chat()
			if got.err != nil || got.status != c.status || got.header.Get("X-Pointsman-Endpoint") != r.address(c.from) {
				t.Fatal(got.status, got.header, got.err)
			}
			if c.body != "" && (got.body != c.body || got.header.Get("Content-Type") != "text/plain" || got.header.Get("X-Pointsman-Reason") != "") {
				t.Error(len(got.body), got.header)
			}
			if c.body == "" {
				checkError(t, got, c.status, c.reason, "")
			}
			r.counted(1, fmt.Sprintf("%dxx", c.status/100), c.reason)
			if res := r.outcome(); res.completed {
				t.Error("counted as completed")
			}
			if n := r.value("retries_total"); n != float64(c.tries-1) {
				t.Error("retries:", n)
			}
		})
	}
}

// Nobody can be picked: the client learns why.
func TestNoPick(t *testing.T) {
	for _, c := range []struct {
		err        error
		status     int
		reason     string
		retryAfter string
	}{
		{fmt.Errorf("pool: %w", route.ErrNoEndpoint), 503, "no-endpoint", "1"},
		{fmt.Errorf("filter: %w", route.ErrShed), 429, "shed", "1"},
		{route.ErrScorerFailed, 503, "scorer-failed", "1"},
	} {
		r := newRig(t, []http.Handler{echo()}, func(r *rig, _ *Config) { r.err = c.err })
		got := r.chat()
		checkError(t, got, c.status, c.reason, "")
		if got.header.Get("Retry-After") != c.retryAfter {
			t.Error(got.header)
		}
		r.counted(1, fmt.Sprintf("%dxx", c.status/100), c.reason)
	}
}

// staleEngine answers one request on each connection and closes it when the next
// comes, as an engine does whose idle limit passes at that moment.
func staleEngine(t *testing.T) (addr string, requests *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	requests = new(atomic.Int64)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for i := 0; ; i++ {
					q, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					requests.Add(1)
					body, err := io.ReadAll(q.Body)
					if err != nil || i > 0 {
						return
					}
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String(), requests
}

// B057: a kept connection that the engine has closed costs nobody a request.
func TestB057StaleConnection(t *testing.T) {
	addr, requests := staleEngine(t)
	r := newRig(t, nil)
	host, port, _ := net.SplitHostPort(addr)
	var n uint16
	fmt.Sscan(port, &n)
	table, err := roster.NewTable([]roster.Endpoint{{ID: "e0", Host: host, Port: n}})
	if err != nil {
		t.Fatal(err)
	}
	r.roster.SetTable(table)
	c := client(t)
	for i := range 3 {
		body := fmt.Sprintf(`{"model":"m","prompt":"%d"}`, i)
		if got := r.send(c, "POST", "/v1/completions", strings.NewReader(body)); got.err != nil || got.status != 200 || got.body != body {
			t.Fatal(i, got)
		}
	}
	if n := r.value("retries_total", "reason", "stale-connection"); n != 2 || requests.Load() != 5 {
		t.Errorf("%v repeated, %d requests at the engine", n, requests.Load())
	}
	if f := r.failures(); len(f) != 0 {
		t.Error("held against the endpoint:", f)
	}
	r.proxy.transport.CloseIdleConnections()
}

// B057 as reported: requests right at the engine's idle limit.
func TestB057IdleLimitRace(t *testing.T) {
	r := newRig(t, []http.Handler{echo()}, func(r *rig, c *Config) { c.KeepAlive, r.engineIdle = ms(10_000), 10*time.Millisecond })
	c := client(t)
	for i := range 200 {
		body := fmt.Sprintf(`{"model":"m","prompt":"%d"}`, i)
		if got := r.send(c, "POST", "/v1/completions", strings.NewReader(body)); got.err != nil || got.status != 200 || got.body != body {
			t.Fatal(i, got)
		}
		time.Sleep(8*time.Millisecond + time.Duration(i%40)*100*time.Microsecond)
	}
	if f := r.failures(); len(f) != 0 {
		t.Error("held against the endpoint:", f)
	}
	if k := DefaultConfig().KeepAlive.D(); k >= 5*time.Second {
		t.Error("the default is above uvicorn's limit:", k)
	}
}

// B059: one silent endpoint does not hold up requests to others, and is found out.
func TestB059SilentEndpoint(t *testing.T) {
	r := newRig(t, []http.Handler{silent(), answer200("x"), answer200("x")}, with(func(c *Config) { c.FirstByteTimeout, c.RetryTimeouts = ms(2000), true }))
	var wg sync.WaitGroup
	var good atomic.Int64
	for range 50 {
		wg.Go(func() {
			for range 4 {
				if got := r.chat(); got.err == nil && got.status == 200 {
					good.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if good.Load() != 200 {
		t.Error("answered:", good.Load())
	}
	// Only the requests that were sent there before it was found out have waited.
	if n := r.value("retries_total", "reason", "first-byte-timeout"); n == 0 || n > 50 {
		t.Error("waited for the silent one:", n)
	}
}

// A decision that panics is one failed request, and its books balance.
func TestPanic(t *testing.T) {
	r := newRig(t, []http.Handler{echo()}, func(r *rig, _ *Config) { r.decide = func(context.Context) { panic("MARKER") } })
	got := r.chat()
	checkError(t, got, 500, "internal", "")
	if strings.Contains(got.body, "MARKER") {
		t.Error(got.body)
	}
	r.counted(1, "5xx", "internal")
}
