package kubernetes

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/test/cluster"
)

// engines are servers of one page at many addresses of this host, which note by their
// tokens who reads it where.
type engines struct {
	port int

	mu    sync.Mutex
	reads map[string]map[string]int // address → token → times
}

func newEngines(t testing.TB, n int, page string) *engines {
	t.Helper()
	e := &engines{port: kittest.FreePort(t), reads: make(map[string]map[string]int)}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			_, _ = w.Write([]byte(`{"data":[{"id":"m"}]}`))
			return
		}
		host, _, _ := net.SplitHostPort(r.Host)
		e.mu.Lock()
		if e.reads[host] == nil {
			e.reads[host] = make(map[string]int)
		}
		e.reads[host][strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]++
		e.mu.Unlock()
		_, _ = w.Write([]byte(page))
	})}
	for i := range n {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address(i), e.port))
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = server.Serve(l) }()
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	})
	return e
}

// since returns who has read each page since the last call, by address.
func (e *engines) since() map[string]map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.reads
	e.reads = make(map[string]map[string]int)
	return out
}

// owners waits until each of n pages is read by one collector alone during some
// rounds, and returns how many each reads.
func (e *engines) owners(t testing.TB, n int) (shares map[string]int) {
	t.Helper()
	kittest.Eventually(t, fmt.Sprintf("each of %d endpoints is scraped by exactly one collector", n), func() bool {
		e.since()
		time.Sleep(1500 * time.Millisecond) // three rounds
		shares = make(map[string]int)
		read := e.since()
		for _, tokens := range read {
			if len(tokens) != 1 {
				return false
			}
			for token := range tokens {
				shares[token]++
			}
		}
		return len(read) == n
	})
	return shares
}

func TestThreeCollectorsShareThreeHundredEndpoints(t *testing.T) {
	const many = 300
	w := newWorld(t)
	e := newEngines(t, many, "vllm:num_requests_waiting 1\nvllm:num_requests_running 2\nvllm:kv_cache_usage_perc 0.5\n")
	w.pool(t, "m", e.port)
	w.pods(t, "m", 0, many)
	collectors := make(map[string]*cluster.Process)
	for _, name := range []string{"a", "b", "c"} {
		// The machine is shared: one that is only slow must not seem dead.
		collectors[name] = w.collector(t, "--poolName=m", "--poolNamespace="+w.ns, "--set=defaults.metrics.token="+name, "--set=scrape.interval=500ms", "--set=scrape.maxShare=1")
	}
	for _, c := range collectors {
		awaitReady(t, c)
	}
	h := w.follow(t, w.ns+"/m")
	w.converge(t, h, "m", e.port)
	before := e.owners(t, many)
	t.Logf("shares: %v", before)
	for name := range collectors {
		if before[name] < many/6 {
			t.Errorf("%s scrapes %d of %d", name, before[name], many)
		}
	}

	collectors["b"].Kill()
	killed := time.Now()
	kittest.Eventually(t, "the others have taken over", func() bool {
		return metric(t, collectors["a"], "owned_endpoints", "")+metric(t, collectors["c"], "owned_endpoints", "") == many
	})
	t.Logf("taken over %v after the kill", time.Since(killed).Round(10*time.Millisecond))
	after := e.owners(t, many)
	t.Logf("shares: %v", after)
	if after["b"] != 0 || after["a"] <= before["a"] || after["c"] <= before["c"] {
		t.Errorf("shares after the kill are %v, before %v", after, before)
	}
	if n := metric(t, collectors["a"], "take_overs_total", "") + metric(t, collectors["c"], "take_overs_total", ""); int(n) != before["b"] {
		t.Errorf("%v take-overs, want %d", n, before["b"])
	}
}
