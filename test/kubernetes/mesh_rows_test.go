package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/kit/kittest"
)

// TestMeshRows has one mesh live through what was reported, one thing after the other.
func TestMeshRows(t *testing.T) {
	t.Parallel()
	m := newMesh(t, 3)
	t.Run("B174 health without leader, before there are pods", func(t *testing.T) { m.health(t, healthv1.HealthCheckResponse_NOT_SERVING) })
	for i := range 3 {
		m.engine(t, i)
		m.pod(t, fmt.Sprintf("m-%d", i), "m", m.ip(i))
	}
	m.know(t, 3)
	for _, r := range m.routers {
		kittest.Eventually(t, "the router takes requests", func() bool { code, _ := page(t, "http://"+r.Addr("admin")+"/readyz"); return code == http.StatusOK })
	}
	t.Run("B174 health without leader, with pods", func(t *testing.T) { m.health(t, healthv1.HealthCheckResponse_SERVING) })
	m.scored(t, 0, "scorer-queue")
	m.scored(t, 0, "prefix-indexer")
	t.Run("B090 ready but not listening", m.readyButNotListening)
	t.Run("B103 the worker that holds the prefix is deleted", m.prefixOfTheDeleted)
	t.Run("a scorer that is scaled down", m.scorerScaledDown)
	t.Run("B176 the others serve on", m.othersServeOn)
	t.Run("B097 scaled to zero", m.scaledToZero)
}

func dial(t testing.TB, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// health asks every router as probes do, by all the names that probes use.
func (m *mesh) health(t *testing.T, want healthv1.HealthCheckResponse_ServingStatus) {
	for i, r := range m.routers {
		client := healthv1.NewHealthClient(dial(t, r.Addr("extProcHealth")))
		for name, state := range map[string]healthv1.HealthCheckResponse_ServingStatus{
			"liveness": healthv1.HealthCheckResponse_SERVING, "readiness": want, "": want, "inference-extension": want, "envoy.service.ext_proc.v3.ExternalProcessor": want,
		} {
			kittest.Eventually(t, fmt.Sprintf("%q of router %d is %v", name, i+1, state), func() bool {
				got, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: name})
				return err == nil && got.GetStatus() == state
			})
		}
		if got, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "leader"}); status.Code(err) != codes.NotFound {
			t.Errorf("an unknown name of router %d is %v, %v", i+1, got, err)
		}
		if code, text := page(t, "http://"+r.Addr("admin")+"/healthz"); code != http.StatusOK {
			t.Errorf("liveness over HTTP is %d %s", code, text)
		}
	}
}

// A pod is Ready for Kubernetes while its port refuses connections, and attracts by being
// idle. No request fails, and soon hardly any goes there; when it listens it is used.
func (m *mesh) readyButNotListening(t *testing.T) {
	m.pod(t, "m-3", "m", m.ip(3))
	m.know(t, 4)
	r := m.routers[0]
	for i := range 30 {
		if got := m.ask(t, 0, fmt.Sprintf("%d: which way?", i)); got.status != http.StatusOK || got.endpoint == m.at(3) {
			t.Errorf("request %d: %d by %q: %s", i, got.status, got.endpoint, got.text)
		}
		time.Sleep(30 * time.Millisecond)
	}
	if n := r.Metric(t, "pointsman_router_http_retries_total", ""); n < 1 || n > 10 {
		t.Errorf("%v requests were sent again: the pod was never tried, or again and again", n)
	}
	m.engine(t, 3)
	kittest.Eventually(t, "it listens and is used", func() bool { return m.ask(t, 0, "And now?").endpoint == m.at(3) })
	m.Delete(t, m.podPath("m-3"))
	m.know(t, 3)
}

// All of a prompt is cached by a pod that is deleted, though its server still answers:
// the prompt goes elsewhere, and stays there.
func (m *mesh) prefixOfTheDeleted(t *testing.T) {
	prompt := strings.Repeat("The down express is late, and the goods train waits. ", 200)
	first := m.ask(t, 0, prompt)
	kittest.Eventually(t, "the prompt has a home", func() bool {
		for range 5 {
			if m.ask(t, 0, prompt).endpoint != first.endpoint {
				first = m.ask(t, 0, prompt)
				return false
			}
		}
		return true
	})
	i := 0
	for m.at(i) != first.endpoint {
		i++
	}
	m.Delete(t, m.podPath(fmt.Sprintf("m-%d", i)))
	m.know(t, 2)
	second := m.ask(t, 0, prompt)
	for range 10 {
		got := m.ask(t, 0, prompt)
		if got.status != http.StatusOK || got.endpoint == first.endpoint || got.endpoint == "" {
			t.Errorf("%d by %q, whose pod was %q", got.status, got.endpoint, first.endpoint)
		}
		second = got
	}
	kittest.Eventually(t, "it has a new home", func() bool {
		last := second
		second = m.ask(t, 0, prompt)
		return last.endpoint == second.endpoint
	})
	// One that returns under its name and address is another: nothing is cached there.
	m.pod(t, fmt.Sprintf("m-%d", i), "m", m.ip(i))
	m.know(t, 3)
	if got := m.ask(t, 0, prompt); got.status != http.StatusOK || got.endpoint == first.endpoint {
		t.Errorf("%d by %q, which has lost what it held; the prompt lives at %q", got.status, got.endpoint, second.endpoint)
	}
}

// A replica of a scorer ends while requests come and its address is still listed, as a
// headless Service lists it for some seconds: no call fails. One that comes is used.
func (m *mesh) scorerScaledDown(t *testing.T) {
	stop := make(chan struct{})
	var callers sync.WaitGroup
	var asked atomic.Int64
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := m.ask(t, 0, "Is the line clear?"); got.status != http.StatusOK {
					t.Errorf("%d %s", got.status, got.text)
				}
				asked.Add(1)
			}
		})
	}
	more := func(n int64) {
		t.Helper()
		before := asked.Load()
		kittest.Eventually(t, "more requests", func() bool { return asked.Load() > before+n })
	}
	replicas := func(state string) float64 {
		return m.routers[0].Metric(t, "pointsman_router_scorer_replicas", `scorer="scorer-queue",state="`+state)
	}
	more(50)
	_, lost := m.verdicts(t, 0, "scorer-queue")
	m.queues[0].Stop(t)
	more(150)
	if n := replicas("ready"); n != 1 {
		t.Errorf("%v replicas are ready, want the one that is left", n)
	}
	m.queues[0].Start(t)
	kittest.Eventually(t, "both replicas are used", func() bool { return replicas("ready") == 2 })
	more(50)
	if scored, other := m.verdicts(t, 0, "scorer-queue"); other != lost || scored < 250 {
		t.Errorf("%v calls of scorer-queue came to nothing, %v were answered", other-lost, scored)
	}
	close(stop)
	callers.Wait()
}

// pick asks a router over ext_proc for where a request without a body goes.
func pick(ctx context.Context, conn *grpc.ClientConn) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	stream, err := extprocv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		return "", err
	}
	headers := &corev3.HeaderMap{}
	for _, f := range [][2]string{{":method", "GET"}, {":path", "/v1/models"}} {
		headers.Headers = append(headers.Headers, &corev3.HeaderValue{Key: f[0], RawValue: []byte(f[1])})
	}
	err = stream.Send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{EndOfStream: true, Headers: headers}}})
	if err != nil {
		return "", err
	}
	got, err := stream.Recv()
	if err != nil {
		return "", err
	}
	for _, h := range got.GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
		if h.GetHeader().GetKey() == "x-gateway-destination-endpoint" {
			return string(h.GetHeader().GetRawValue()), nil
		}
	}
	return "", fmt.Errorf("no destination but %v", got)
}

// A gateway has one connection, to whichever router, for as long as that lives. Whoever
// else dies, a router, or a collector that scraped half of the endpoints: every stream on
// it is answered with an endpoint.
func (m *mesh) othersServeOn(t *testing.T) {
	conn := dial(t, m.routers[1].Addr("extProc"))
	stop := make(chan struct{})
	var gateway sync.WaitGroup
	var picked atomic.Int64
	gateway.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := pick(context.Background(), conn); err != nil {
				t.Errorf("after %d picks: %v", picked.Load(), err)
			}
			picked.Add(1)
			time.Sleep(10 * time.Millisecond)
		}
	})
	more := func() {
		t.Helper()
		before := picked.Load()
		kittest.Eventually(t, "more picks", func() bool { return picked.Load() > before+50 })
	}
	more()
	m.routers[0].Kill()
	m.routers = m.routers[1:]
	m.collectors[0].Signal(t, syscall.SIGKILL)
	more()
	// What comes now is heard of from the collector that is left.
	m.engine(t, 4)
	m.pod(t, "m-4", "m", m.ip(4))
	m.know(t, 4)
	kittest.Eventually(t, "the new pod is picked", func() bool { to, err := pick(t.Context(), conn); return err == nil && to == m.at(4) })
	close(stop)
	gateway.Wait()
}

// Without a pod requests are told 503 and to come again, not that there is too much load.
func (m *mesh) scaledToZero(t *testing.T) {
	for _, i := range []int{0, 1, 2, 4} {
		m.Delete(t, m.podPath(fmt.Sprintf("m-%d", i)))
	}
	m.know(t, 0)
	var callers sync.WaitGroup
	for range 10 {
		callers.Go(func() {
			for range 10 {
				if got := m.ask(t, 0, "Anybody?"); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
					t.Errorf("%d, Retry-After %q: %s", got.status, got.header.Get("Retry-After"), got.text)
				}
			}
		})
	}
	callers.Wait()
	r := m.routers[0]
	if shed, nobody := r.Metric(t, "pointsman_router_admission_total", `result="shed"`), r.Metric(t, "pointsman_router_admission_total", `result="nobody"`); shed != 0 || nobody < 100 {
		t.Errorf("%v were shed, %v found nobody; want 0 and 100", shed, nobody)
	}
	m.pod(t, "m-0", "m", m.ip(0))
	kittest.Eventually(t, "it is served again", func() bool { return m.ask(t, 0, "And now?").status == http.StatusOK })
}
