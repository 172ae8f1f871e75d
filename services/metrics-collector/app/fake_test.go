package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/follower"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/discover"
)

// asCollector makes the test binary a collector, for tests that kill one.
const asCollector = "POINTSMAN_TEST_COLLECTOR_ARGS"

func TestMain(m *testing.M) {
	if args := os.Getenv(asCollector); args != "" {
		os.Exit(run.Main(Name, func(ctx context.Context, _ []string, stdout io.Writer) error {
			return Run(ctx, strings.Split(args, "\n"), stdout)
		}))
	}
	if os.Getenv(asEngines) != "" {
		if err := serveEngines(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// engineServer is a fake engine that knows by their tokens who scrapes it.
type engineServer struct {
	port int

	mu     sync.Mutex
	page   string
	status int
	scrape map[string]int // by token
}

func newEngine(t *testing.T, page string) *engineServer {
	t.Helper()
	e := &engineServer{page: page, status: http.StatusOK, scrape: make(map[string]int)}
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	e.port = s.Listener.Addr().(*net.TCPAddr).Port
	return e
}

func newEngines(t *testing.T, n int) (es []*engineServer) {
	t.Helper()
	for i := range n {
		es = append(es, newEngine(t, page(i, 0, 0.5)))
	}
	return es
}

func page(waiting, running int, usage float64) string {
	return fmt.Sprintf("vllm:num_requests_waiting{model_name=\"m\"} %d\nvllm:num_requests_running{model_name=\"m\"} %d\nvllm:kv_cache_usage_perc %v\n", waiting, running, usage)
}

func (e *engineServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		http.NotFound(w, r)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.scrape[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]++
	w.WriteHeader(e.status)
	fmt.Fprint(w, e.page)
}

func (e *engineServer) set(page string, status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.page, e.status = page, status
}

func (e *engineServer) scrapes() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make(map[string]int, len(e.scrape))
	for k, v := range e.scrape {
		out[k] = v
	}
	return out
}

func (e *engineServer) config() discover.EndpointConfig {
	return discover.EndpointConfig{Address: "127.0.0.1", Traits: discover.Traits{Port: e.port}}
}

// endpointsFile is the text of a file with these engines.
func endpointsFile(es ...*engineServer) string {
	text := "endpoints: ["
	for _, e := range es {
		text += fmt.Sprintf("{address: 127.0.0.1, port: %d}, ", e.port)
	}
	return text + "]\n"
}

// collector is a collector in this process.
type collector struct {
	tel  *telemetry.Telemetry
	stop func()
}

func testConfig(nats, token string, es ...*engineServer) Config {
	cfg := DefaultConfig()
	cfg.NATS.URL = nats
	cfg.Telemetry.Admin.Address = ""
	cfg.Discover.Defaults.Metrics.Token = conf.Secret(token)
	cfg.Discover.Discovery.FileInterval = conf.Duration(20 * time.Millisecond)
	// Tests share few cores: a collector that is only slow must not seem dead, and an
	// endpoint whose page is slow because of that must not be scraped less.
	cfg.Broadcast.DeadAfter = conf.Duration(4 * time.Second)
	cfg.Scrape.ConnectTimeout, cfg.Scrape.MaxShare = cfg.Scrape.Timeout, 1
	for _, e := range es {
		cfg.Discover.Endpoints = append(cfg.Discover.Endpoints, e.config())
	}
	return cfg
}

func startCollector(t *testing.T, cfg Config) *collector {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	c := &collector{tel: telemetry.Discard()}
	c.tel.Log = slog.New(slog.NewTextHandler(testLog{t}, nil))
	group, err := assemble(cfg, c.tel, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c.stop = runGroup(t, group)
	return c
}

// testLog writes to the test's log.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// runGroup runs a group until the test ends or the function is called.
func runGroup(t *testing.T, group *run.Group) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- group.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// value returns one of the collector's metrics.
func (c *collector) value(name string, attrs ...string) int {
	return int(c.tel.Value("pointsman_metrics_collector_"+name, attrs...))
}

// holder is somebody who follows the broadcast, as routers and scorers do.
type holder struct {
	*roster.Roster
	bus *bus.Bus
}

func startHolder(t *testing.T, nats string, further ...func(*follower.Follower)) *holder {
	t.Helper()
	cfg := bus.DefaultConfig()
	cfg.URL = nats
	tel := telemetry.Discard()
	b, err := bus.New(cfg, "default", bus.NewPublisherID("holder"), tel)
	if err != nil {
		t.Fatal(err)
	}
	r := roster.New(roster.Config{})
	f, err := follower.New(r, b, tel)
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range further {
		more(f)
	}
	group := run.NewGroup(nil)
	group.Add("bus", b.Part())
	group.Add("follower", f.Part())
	connected := make(chan struct{})
	group.OnReady = func() { close(connected) }
	runGroup(t, group)
	<-connected
	return &holder{r, b}
}

// scrapedSince counts the endpoints whose figures are younger than that.
func (h *holder) scrapedSince(ns int64) (n int) {
	for _, observed := range h.Snapshot().ObservedAt {
		if observed > ns {
			n++
		}
	}
	return n
}

// waitFresh waits until the table has n endpoints and all of them have been scraped
// after now.
func (h *holder) waitFresh(t *testing.T, n int) {
	t.Helper()
	now := h.Now()
	kittest.Eventually(t, strconv.Itoa(n)+" endpoints have fresh figures", func() bool {
		return h.Snapshot().Len() == n && h.scrapedSince(now) == n
	})
}
