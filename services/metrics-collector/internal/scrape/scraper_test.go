package scrape

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

func TestScrapeReadsThePage(t *testing.T) {
	var headers sync.Map
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		headers.Store(r.URL.Path, r.Header.Clone())
		writePage(w, r)
	})
	b := newBench(t, quick())
	before := time.Now()
	b.assign(at(t, server.URL))
	b.waitScrapes("ok", 3)
	r, _ := b.reading("0")
	if r.Waiting != 4 || r.Running != 3 || r.KVCacheUsage != 0.5 || r.At.Before(before) || r.At.After(time.Now()) {
		t.Errorf("reading %+v", r)
	}
	if d := cmp.Diff(fleet.Details{Engine: "vllm", Models: []string{"m"}}, b.detail("0")); d != "" {
		t.Error(d)
	}
	h, _ := headers.Load("/metrics")
	got := h.(http.Header)
	want := map[string]string{"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity", "User-Agent": "pointsman-metrics-collector", "Authorization": ""}
	for name, value := range want {
		if got.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, got.Get(name), value)
		}
	}
	if n := b.tel.Value("pointsman_metrics_collector_page_bytes_sum"); n < float64(3*len(goodPage)) {
		t.Errorf("page bytes %v", n)
	}
	if n := b.tel.Value("pointsman_metrics_collector_unknown_figures", "figure", "kv_cache_blocks"); n != 1 {
		t.Errorf("unknown kv_cache_blocks = %v, want 1", n)
	}
	if n := b.tel.Value("pointsman_metrics_collector_unknown_figures", "figure", "waiting_requests"); n != 0 {
		t.Errorf("unknown waiting_requests = %v, want 0", n)
	}
}

func TestConnectionsAreKept(t *testing.T) {
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(writePage))
	server.Config.ConnState = countNew(&opened)
	server.Start()
	t.Cleanup(server.Close)
	b := newBench(t, quick())
	b.assign(at(t, server.URL))
	b.waitScrapes("ok", 20)
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections for many scrapes, want 1", n)
	}
}

// failing are servers that give no figures.
func failing() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"status": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, goodPage, http.StatusServiceUnavailable) },
		"no_figures": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<html>vllm:num_requests_running 3</html>")
		},
		"too_large": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, goodPage+strings.Repeat("# filler\n", 1<<10))
		},
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2000")
			fmt.Fprint(w, goodPage)
		},
		"encoding": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, goodPage)
			z.Close()
		},
		"timeout": func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Second):
			}
		},
	}
}

func TestFailuresAreCountedByReason(t *testing.T) {
	for reason, handler := range failing() {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			var fail atomic.Bool
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if fail.Load() {
					handler(w, r)
					return
				}
				writePage(w, r)
			})
			cfg := quick()
			cfg.Timeout, cfg.MaxPageBytes = conf.Duration(50*time.Millisecond), 4<<10
			cfg.MaxInterval = conf.Duration(60 * time.Millisecond)
			b := newBench(t, cfg)
			b.assign(at(t, server.URL))
			b.waitScrapes("ok", 1)

			fail.Store(true)
			b.waitScrapes(reason, 3)
			old, n := b.reading("0")
			b.waitScrapes(reason, 2)
			if r, m := b.reading("0"); m != n || !r.At.Equal(old.At) {
				t.Error("a failing endpoint's figures were refreshed")
			}
			fail.Store(false)
			b.waitScrapes("ok", 2)
			if r, _ := b.reading("0"); !r.At.After(old.At) {
				t.Error("figures were not refreshed after the recovery")
			}
			if f, w := b.logs.count("cannot be scraped"), b.logs.count("scraped again"); f != 1 || w != 1 {
				t.Errorf("%d lines about failing and %d about recovery, want one of each", f, w)
			}
			if b.logs.count("reason="+reason) != 1 {
				t.Error("the log does not say why")
			}
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	var visited atomic.Int32
	other := serve(t, func(w http.ResponseWriter, r *http.Request) { visited.Add(1); writePage(w, r) })
	server := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	b := newBench(t, quick())
	b.assign(at(t, server.URL))
	b.waitScrapes("status", 2)
	if visited.Load() != 0 {
		t.Error("a redirect was followed, with whatever token was sent")
	}
}

func TestAssignLeavesOthersAlone(t *testing.T) {
	var asked [3]atomic.Int32
	var closed [3]atomic.Int32
	var targets []*fleet.Target
	for i := range asked {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[i].Add(1)
			writePage(w, r)
		}))
		server.Config.ConnState = countClosed(&closed[i])
		server.Start()
		t.Cleanup(server.Close)
		targets = append(targets, at(t, server.URL))
	}
	b := newBench(t, quick())
	b.assign(targets...)
	kittest.Eventually(t, "all are scraped", func() bool { n, of := b.Attempted(); return n == 3 && of == 3 })
	b.assign(targets[0])
	kittest.Eventually(t, "connections to those that left are closed", func() bool { return closed[1].Load() == 1 && closed[2].Load() == 1 })
	n1, n2 := asked[1].Load(), asked[2].Load()
	b.waitScrapes("ok", 5)
	if asked[1].Load() != n1 || asked[2].Load() != n2 {
		t.Error("an endpoint that left was scraped")
	}
	if closed[0].Load() != 0 {
		t.Error("the endpoint that stayed was disturbed")
	}
	// The same address with other settings is a new start.
	changed := *targets[0]
	changed.Metrics.Path = "/other"
	b.assign(&changed)
	kittest.Eventually(t, "the old connection is closed", func() bool { return closed[0].Load() == 1 })
	b.waitScrapes("ok", 1)
}

func TestAssignWhileAScrapeHangs(t *testing.T) {
	entered := make(chan struct{}, 100)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-r.Context().Done()
	})
	b := newBench(t, quick())
	b.assign(at(t, server.URL))
	<-entered
	b.assign()
	// The handler returns once the scrape is cut off, or server.Close would hang.
	if n := b.scrapes("cut") + b.scrapes("timeout"); n != 0 {
		t.Errorf("%d failures counted for an endpoint that left", n)
	}
}

func TestModelsAreAskedFor(t *testing.T) {
	var fail atomic.Bool
	fail.Store(true)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			writePage(w, r)
			return
		}
		if fail.Load() {
			http.Error(w, "loading", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model","parent":null},{"id":"sql-lora","parent":"m"},{"id":""},{"id":"alias"},{"id":"m"}]}`)
	})
	target := at(t, server.URL)
	target.Models = nil
	b := newBench(t, quick())
	b.assign(target)
	kittest.Eventually(t, "a question fails", func() bool {
		return b.tel.Value("pointsman_metrics_collector_model_lists_total", "result", "failed") >= 2
	})
	b.waitScrapes("ok", 1)
	if d := cmp.Diff([]string{"m"}, b.detail("0").Models); d != "" {
		t.Errorf("models of the page's labels: %s", d)
	}
	fail.Store(false)
	kittest.Eventually(t, "adapters and aliases are known", func() bool { return cmp.Equal([]string{"alias", "m", "sql-lora"}, b.detail("0").Models) })
}

func TestGivenModelsAreNotAskedFor(t *testing.T) {
	var asked atomic.Int32
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			asked.Add(1)
		}
		writePage(w, r)
	})
	b := newBench(t, quick())
	b.assign(at(t, server.URL))
	b.waitScrapes("ok", 10)
	if asked.Load() != 0 {
		t.Error("models were asked for although they are given")
	}
}

func FuzzParseModels(f *testing.F) {
	f.Add([]byte(`{"data":[{"id":"m"},{"id":"a","parent":"m"}]}`))
	f.Add([]byte(`{"data":[]}`))
	f.Add([]byte(`{"error":{"message":"no"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		models, err := parseModels(body)
		if err != nil && models != nil {
			t.Error("both models and an error")
		}
		for i, m := range models {
			if m == "" || len(m) > maxModelName || i > 0 && m <= models[i-1] {
				t.Errorf("models %q are not distinct, ascending names", models)
			}
		}
	})
}
