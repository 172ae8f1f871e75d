package scrape

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/engine"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a sink that keeps the newest of everything.
type memory struct {
	mu       sync.Mutex
	readings map[fleet.ID]fleet.Reading
	counts   map[fleet.ID]int
	details  map[fleet.ID]fleet.Details
}

func (m *memory) Observed(id fleet.ID, r fleet.Reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readings[id] = r
	m.counts[id]++
}

func (m *memory) Learned(id fleet.ID, d fleet.Details) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.details[id] = d
}

func (m *memory) reading(id fleet.ID) (fleet.Reading, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.readings[id], m.counts[id]
}

func (m *memory) detail(id fleet.ID) fleet.Details {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.details[id]
}

// bench is a scraper that runs, with what it reads and logs.
type bench struct {
	*Scraper
	memory
	tel  *telemetry.Telemetry
	logs *lines
	t    *testing.T
}

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(substring string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), substring)
}

// quick is a configuration for tests: an interval of 5 ms.
func quick() Config {
	c := DefaultConfig()
	c.Interval = conf.Duration(5 * time.Millisecond)
	c.MaxBackoff = conf.Duration(50 * time.Millisecond)
	c.ModelList.Retry = conf.Duration(20 * time.Millisecond)
	return c
}

func newBench(t *testing.T, cfg Config) *bench {
	t.Helper()
	b := &bench{tel: telemetry.Discard(), logs: &lines{}, t: t, memory: memory{
		readings: make(map[fleet.ID]fleet.Reading), counts: make(map[fleet.ID]int), details: make(map[fleet.ID]fleet.Details),
	}}
	var err error
	b.Scraper, err = New(cfg, engine.NewCatalog(), &b.memory, slog.New(slog.NewTextHandler(b.logs, nil)), b.tel.Meter)
	if err != nil {
		t.Fatal(err)
	}
	g := run.NewGroup(nil)
	g.Add("scraper", b.Part())
	ctx := t.Context()
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		if err := <-done; err != nil { // t.Context has ended by now
			t.Error(err)
		}
	})
	return b
}

// assign scrapes the targets alone, under the ids "0", "1", …
func (b *bench) assign(targets ...*fleet.Target) {
	b.t.Helper()
	var as []Assignment
	for i, t := range targets {
		as = append(as, Assignment{fleet.ID(strconv.Itoa(i)), t})
	}
	if err := b.Assign(as); err != nil {
		b.t.Fatal(err)
	}
}

// scrapes returns how many scrapes had the result.
func (b *bench) scrapes(result string) int {
	return int(b.tel.Value("pointsman_metrics_collector_scrapes_total", "result", result))
}

// waitScrapes waits for n more scrapes with the result.
func (b *bench) waitScrapes(result string, n int) {
	b.t.Helper()
	until := b.scrapes(result) + n
	kittest.Eventually(b.t, fmt.Sprintf("%d scrapes end with %s", n, result), func() bool { return b.scrapes(result) >= until })
}

// at is the target of a server, whose models are known.
func at(t *testing.T, serverURL string) *fleet.Target {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return &fleet.Target{
		Host: host, Port: uint16(n), Scheme: u.Scheme, Models: []string{"m"},
		Metrics:   fleet.Source{Scheme: u.Scheme, Port: uint16(n), Path: "/metrics"},
		ModelList: fleet.Source{Scheme: u.Scheme, Port: uint16(n), Path: "/v1/models"},
	}
}

const goodPage = "vllm:num_requests_waiting{model_name=\"m\"} 4\nvllm:num_requests_running{model_name=\"m\"} 3\nvllm:kv_cache_usage_perc 0.5\n"

// serve starts a server whose pages the handler writes.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func writePage(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, goodPage) }
