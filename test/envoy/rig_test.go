package envoy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

// patience is how long a request may take on a machine that is busy with tests.
const patience = time.Minute

// patient are settings of a router for such a machine: what is asked here is not how
// fast scorers are.
var patient = []string{"scoring.timeout=1s", "listen.extProc.decisionTimeout=1s"}

// rig is a cluster with Envoy before it.
type rig struct {
	*cluster.Cluster
	*proxy
	t         testing.TB
	servers   *servers
	decisions *decisions
	outcomes  *outcomes
	h1, h2    *http.Client
}

// options is what a rig is made of.
type options struct {
	cluster cluster.Options
	file    string // of deploy/envoy
	// listeners adds listeners; nil: one, named openai, as in the file.
	listeners func(b *bootstrap)
	// with changes the rest of the file; may be nil.
	with func(b *bootstrap)
	// beside puts something before a server, which is at the address front, and returns
	// where the pool finds it. It is called once per server. May be nil.
	beside func(s *modelserver.Server, front string) string
}

func newRig(t testing.TB, o options) *rig {
	t.Helper()
	r := &rig{t: t, servers: &servers{t: t, next: make(chan struct{})}}
	pool := make(map[*modelserver.Server]string)
	o.cluster.Address = func(s *modelserver.Server) string {
		if _, known := pool[s]; !known {
			if pool[s] = r.servers.front(s); o.beside != nil {
				pool[s] = o.beside(s, pool[s])
			}
		}
		return pool[s]
	}
	if o.cluster.Server == nil {
		o.cluster.Server = func(_ int, cfg *modelserver.Config) { cfg.TimeScale = 25 }
	}
	o.cluster.RouterSets = append(append([]string(nil), patient...), o.cluster.RouterSets...)
	r.Cluster = cluster.Start(t, o.cluster)
	r.decisions, r.outcomes = watch(t, r.Router(t, 0)), follow(t, r.NATS.URL)

	b := load(t, o.file)
	var addresses, pickers []string
	for _, s := range r.Servers {
		addresses = append(addresses, pool[s])
	}
	for _, p := range r.Routers {
		pickers = append(pickers, p.Addr("extProc"))
	}
	b.pool(t, "endpoint-picker", pickers...)
	if o.file == overrideHost {
		b.pool(t, "model-servers", addresses...)
	}
	if o.with != nil {
		o.with(b)
	}
	if o.listeners != nil {
		o.listeners(b)
	} else {
		b.listen(t, "openai", nil)
	}
	r.proxy = b.start(t)
	if o.file == overrideHost {
		kittest.Eventually(t, "Envoy to find the model servers healthy", func() bool {
			return r.stat(t, "cluster.model-servers.membership_healthy") == len(addresses)
		})
	}
	r.h1, r.h2 = client(t, false), client(t, true)
	return r
}

// The files of deploy/envoy.
const (
	overrideHost = "override-host.yaml"
	originalDst  = "original-dst.yaml"
)

// client returns an HTTP client, of HTTP/1.1 or HTTP/2 without TLS.
func client(t testing.TB, h2 bool) *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols), MaxIdleConnsPerHost: 64}
	tr.Protocols.SetHTTP1(!h2)
	tr.Protocols.SetUnencryptedHTTP2(h2)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// request is what a client sends.
type request struct {
	method  string // "": POST
	path    string // "": chat completions
	body    []byte
	chunked bool // without Content-Length
	h2      bool
	headers map[string]string
}

// answer is what it gets.
type answer struct {
	status  int
	headers http.Header
	body    []byte
	err     error // of the body
}

const chatPath = "/v1/chat/completions"

// make makes the request.
func (q request) make(ctx context.Context, base string) (*http.Request, error) {
	method, path := q.method, q.path
	if method == "" {
		method = http.MethodPost
	}
	if path == "" {
		path = chatPath
	}
	var body io.Reader
	if q.body != nil {
		body = bytes.NewReader(q.body)
		if q.chunked {
			body = struct{ io.Reader }{body}
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, body)
	if err != nil {
		return nil, err
	}
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range q.headers {
		if value == "" {
			delete(req.Header, name)
			continue
		}
		req.Header[name] = strings.Split(value, "\n")
	}
	return req, nil
}

// try sends a request and reads the answer.
func (r *rig) try(ctx context.Context, listener string, q request) (answer, error) {
	req, err := q.make(ctx, r.url(listener))
	if err != nil {
		return answer{}, err
	}
	c := r.h1
	if q.h2 {
		c = r.h2
	}
	resp, err := c.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, headers: resp.Header, body: body, err: err}, nil
}

// send is try for requests that must be answered in full.
func (r *rig) send(t testing.TB, listener string, q request) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, err := r.try(ctx, listener, q)
	if err == nil {
		err = a.err
	}
	if err != nil {
		t.Fatalf("%s: %v", listener, err)
	}
	return a
}

// echo sends a request to be echoed, and asserts that it came as it was.
func (r *rig) echo(t testing.TB, listener string, q request) seen {
	t.Helper()
	if q.headers == nil {
		q.headers = map[string]string{}
	}
	q.headers[headerDo] = "echo"
	a := r.send(t, listener, q)
	if a.status != http.StatusOK {
		t.Fatalf("status %d: %.300s", a.status, a.body)
	}
	var got seen
	if err := json.Unmarshal(a.body, &got); err != nil {
		t.Fatalf("%v in %.300q", err, a.body)
	}
	if got.Size != len(q.body) || got.Digest != digest(q.body) {
		t.Errorf("the server got %d bytes, digest %.8s, of %d, digest %.8s", got.Size, got.Digest, len(q.body), digest(q.body))
	}
	if got.Length >= 0 && got.Length != int64(len(q.body)) {
		t.Errorf("the server was told of %d bytes, of %d", got.Length, len(q.body))
	}
	return got
}

// fault is an OpenAI error.
type fault struct {
	Error struct {
		Message, Type, Code string
		Param               *string
	}
}

// refused asserts that a request is refused by the router, in OpenAI's shape.
func (a answer) refused(t testing.TB, status int, reason string) {
	t.Helper()
	var f fault
	if err := json.Unmarshal(a.body, &f); err != nil || f.Error.Message == "" || a.headers.Get("Content-Type") != "application/json" {
		t.Errorf("not an OpenAI error: %v, type %q: %.300q", err, a.headers.Get("Content-Type"), a.body)
	}
	if got := a.headers.Get("X-Pointsman-Reason"); a.status != status || got != reason {
		t.Errorf("status %d, reason %q, want %d, %q: %.300s", a.status, got, status, reason, a.body)
	}
}

// counter follows a metric of the first router from when it was made.
type counter struct {
	r            *rig
	name, labels string
	began        float64
}

func (r *rig) counter(name, labels string) *counter {
	return &counter{r: r, name: name, labels: labels, began: r.Metric(r.t, 0, name, labels)}
}

// rose waits until the metric has risen by n, and asserts that it was not more.
func (c *counter) rose(t testing.TB, n int) {
	t.Helper()
	var by float64
	kittest.Eventually(t, fmt.Sprintf("%s{%s} to rise by %d", c.name, c.labels, n), func() bool {
		by = c.r.Metric(t, 0, c.name, c.labels) - c.began
		return by >= float64(n)
	})
	if by != float64(n) {
		t.Errorf("%s{%s} rose by %v, want %d", c.name, c.labels, by, n)
	}
}

// idle waits until nothing is under way and no pick is open.
func (r *rig) idle(t testing.TB) {
	t.Helper()
	kittest.Eventually(t, "every stream to end and every reservation with it", func() bool {
		return r.Metric(t, 0, "pointsman_router_extproc_requests_in_flight", "") == 0 && r.Metric(t, 0, "pointsman_router_reservations", "") == 0
	})
	r.AwaitIdle(t)
}

// decisions are what a router has decided, by request id.
type decisions struct {
	mu sync.Mutex
	by map[string]*routerv1.Decision
}

func watch(t testing.TB, router routerv1.RouterServiceClient) *decisions {
	t.Helper()
	d := &decisions{by: make(map[string]*routerv1.Decision)}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := router.WatchDecisions(ctx, &routerv1.WatchDecisionsRequest{IncludeCandidates: true})
	if err == nil {
		_, err = stream.Header() // from here on none is missed
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			d.mu.Lock()
			d.by[m.GetDecision().GetRequestId()] = m.GetDecision()
			d.mu.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return d
}

// of waits for the decision on a request.
func (d *decisions) of(t testing.TB, id string) *routerv1.Decision {
	t.Helper()
	var found *routerv1.Decision
	kittest.Eventually(t, "the decision on "+id, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		found = d.by[id]
		return found != nil
	})
	return found
}

// decided returns the decision on a request that a server has seen, and asserts that it
// was the server's.
func (r *rig) decided(t testing.TB, got seen) *routerv1.Decision {
	t.Helper()
	d := r.decisions.of(t, got.Headers.Get("X-Request-Id"))
	if to := d.GetEndpoint().GetAddress(); to != got.Server {
		t.Errorf("%s was picked and %s has served", to, got.Server)
	}
	return d
}

// chat returns a chat completions request of exactly so many bytes, at least 100.
func chat(size int) []byte {
	const head, tail = `{"model":"sim-model","max_tokens":4,"messages":[{"role":"user","content":"`, `"}]}`
	b := append(make([]byte, 0, size), head...)
	b = append(b, filler(max(0, size-len(head)-len(tail)))...)
	return append(b, tail...)
}
