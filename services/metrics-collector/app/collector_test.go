package app

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

func TestFiguresArrive(t *testing.T) {
	nats := kittest.NATS(t)
	full := newEngine(t, page(4, 3, 0.25)+
		`vllm:lora_requests_info{max_lora="2",running_lora_adapters="b,a",waiting_lora_adapters="c"} 1`+"\n"+
		`vllm:cache_config_info{block_size="16",num_gpu_blocks="640"} 1`+"\n")
	part := newEngine(t, "sglang:num_running_reqs 7\nsglang:token_usage NaN\n")
	none := newEngine(t, "# nothing here\n")
	cfg := testConfig(nats, "a", full, part, none)
	cfg.Discover.Endpoints[0].Labels = map[string]string{"zone": "x"}
	for i, id := range []string{"full", "part", "none"} {
		cfg.Discover.Endpoints[i].ID = id
	}
	h := startHolder(t, nats)
	c := startCollector(t, cfg)
	kittest.Eventually(t, "the collector is ready although an endpoint fails", func() bool { ready, _ := c.tel.Health.Ready(); return ready })
	kittest.Eventually(t, "details are in the table", func() bool {
		s := h.Snapshot()
		return s.Len() == 3 && s.Table.Endpoints[0].CacheBlockCount == 640 && s.Table.Endpoints[2].Engine == "sglang" && h.scrapedSince(roster.Never) == 2
	})
	s := h.Snapshot()
	e := s.Table.Endpoints[0]
	want := roster.Endpoint{
		ID: "full", Host: "127.0.0.1", Port: uint16(full.port), Address: fmt.Sprintf("127.0.0.1:%d", full.port), Scheme: "http", Engine: "vllm",
		Labels: []roster.Label{{Name: "zone", Value: "x"}}, Models: []string{"m"}, CacheBlockSize: 16, CacheBlockCount: 640,
	}
	if d := cmp.Diff(want, e); d != "" {
		t.Error(d)
	}
	// Ascending by id: full, none, part.
	if d := cmp.Diff([]int32{4, -1, -1}, s.Waiting); d != "" {
		t.Errorf("waiting: %s", d)
	}
	if d := cmp.Diff([]int32{3, -1, 7}, s.Running); d != "" {
		t.Errorf("running: %s", d)
	}
	if d := cmp.Diff([]float32{0.25, -1, -1}, s.KV); d != "" {
		t.Errorf("usage: %s", d)
	}
	if d := cmp.Diff(&roster.Adapters{Running: []string{"a", "b"}, Waiting: []string{"c"}, Max: 2}, s.Adapters[0]); d != "" {
		t.Errorf("adapters: %s", d)
	}
	if s.ObservedAt[1] != roster.Never {
		t.Error("an endpoint without figures looks scraped")
	}
	if n := c.value("unknown_figures", "figure", "kv_cache_usage"); n != 1 {
		t.Errorf("%d endpoints lack the usage, want 1", n)
	}
	if n := c.value("stale_endpoints"); n != 1 {
		t.Errorf("%d stale endpoints, want 1", n)
	}
}

func TestB084_figures_of_a_failing_endpoint_age(t *testing.T) {
	nats := kittest.NATS(t)
	e := newEngine(t, page(4, 3, 0.25))
	cfg := testConfig(nats, "a", e)
	cfg.Broadcast.StalenessLimit = cfg.Broadcast.HeartbeatInterval // soon, for the test
	h := startHolder(t, nats)
	c := startCollector(t, cfg)
	h.waitFresh(t, 1)
	e.set(page(0, 0, 0), http.StatusInternalServerError)
	kittest.Eventually(t, "the endpoint counts as stale", func() bool { return c.value("stale_endpoints") == 1 })
	kittest.Eventually(t, "its figure is old for the holder as well", func() bool { return h.Snapshot().Age(0, h.Now()) > time.Second })
	if n := h.Snapshot().Waiting[0]; n != 4 {
		t.Errorf("waiting = %d, want the old figure", n)
	}
	if n := c.value("scrapes_total", "result", "status"); n < 2 {
		t.Errorf("%d scrapes failed, want it to be tried again", n)
	}
	e.set(page(1, 0, 0), http.StatusOK)
	kittest.Eventually(t, "it is fresh again", func() bool { return c.value("stale_endpoints") == 0 && h.Snapshot().Waiting[0] == 1 })
}

// states asks all collectors for what they know.
func states(t *testing.T, h *holder) (out []*statev1.GetStateResponse) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	out, err := bus.RequestMany(ctx, h.bus, bus.GetState, &statev1.GetStateRequest{}, func() *statev1.GetStateResponse { return &statev1.GetStateResponse{} }, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// waitIDs waits until all collectors announce exactly these endpoints.
func waitIDs(t *testing.T, h *holder, collectors int, ids ...string) {
	t.Helper()
	slices.Sort(ids)
	kittest.Eventually(t, fmt.Sprintf("%d collectors announce %v", collectors, ids), func() bool {
		all := states(t, h)
		if len(all) != collectors {
			return false
		}
		for _, s := range all {
			var got []string
			for _, e := range s.GetTable().GetEndpoints() {
				got = append(got, e.GetEndpointId())
			}
			if !slices.Equal(got, ids) {
				return false
			}
		}
		return true
	})
}

func TestCollectorsAgreeOnIDs(t *testing.T) {
	nats := kittest.NATS(t)
	es := newEngines(t, 3)
	id := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", es[i].port) }
	dir := t.TempDir()
	write := func(collector string, es ...*engineServer) {
		if err := os.WriteFile(filepath.Join(dir, collector), []byte(endpointsFile(es...)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start := func(name string) *collector {
		cfg := testConfig(nats, name)
		cfg.Discover.EndpointsFile = filepath.Join(dir, name)
		return startCollector(t, cfg)
	}
	h := startHolder(t, nats)
	write("a", es...)
	write("b", es...)
	start("a")
	b := start("b")
	waitIDs(t, h, 2, id(0), id(1), id(2))

	// Both see an endpoint leave; one sees it come back, the other somewhat later.
	write("a", es[1:]...)
	write("b", es[1:]...)
	waitIDs(t, h, 2, id(1), id(2))
	write("a", es...)
	kittest.Eventually(t, "the holder follows the one that has seen more", func() bool { return h.Snapshot().Len() == 3 })
	write("b", es...)
	waitIDs(t, h, 2, id(0)+"#2", id(1), id(2))

	// One sees an endpoint leave and come back, the other misses it.
	write("a", es[0], es[2])
	kittest.Eventually(t, "an endpoint has left", func() bool { return h.Snapshot().Len() == 2 })
	write("a", es...)
	waitIDs(t, h, 2, id(0)+"#2", id(1)+"#2", id(2))

	// One that starts names endpoints as the others do.
	write("c", es...)
	start("c")
	waitIDs(t, h, 3, id(0)+"#2", id(1)+"#2", id(2))
	b.stop()
	waitIDs(t, h, 2, id(0)+"#2", id(1)+"#2", id(2))
	h.waitFresh(t, 3)
}

func TestEveryCollectorTellsTheLoadsOfAll(t *testing.T) {
	nats := kittest.NATS(t)
	es := newEngines(t, 8)
	h := startHolder(t, nats)
	startCollector(t, testConfig(nats, "a", es...))
	startCollector(t, testConfig(nats, "b", es...))
	kittest.Eventually(t, "both tell of all", func() bool {
		all := states(t, h)
		for _, s := range all {
			if len(s.GetLoads().GetAgeMs()) != 8 || s.GetLoads().GetStamp().GetPublisherId() != s.GetTable().GetStamp().GetPublisherId() {
				return false
			}
			for _, e := range s.GetTable().GetEndpoints() { // also what only the other has learnt
				if e.GetEngine() != "vllm" || !slices.Equal(e.GetModels(), []string{"m"}) {
					return false
				}
			}
		}
		return len(all) == 2
	})
}

func TestNATSAway(t *testing.T) {
	n := kittest.StartNATS(t, 0)
	es := newEngines(t, 4)
	h := startHolder(t, n.URL)
	cfg := testConfig(n.URL, "a", es...)
	a := startCollector(t, cfg)
	b := startCollector(t, testConfig(n.URL, "b", es...))
	kittest.Eventually(t, "both share", func() bool { return a.value("live_collectors") == 2 && b.value("live_collectors") == 2 })
	before := onlyOne(t, es)
	n.Stop()
	time.Sleep(cfg.Broadcast.DeadAfter.D() * 3 / 2) // longer than it takes to be taken for dead
	if d := cmp.Diff(before, onlyOne(t, es)); d != "" {
		t.Errorf("endpoints moved while nobody could be told: %s", d)
	}
	n.Restart()
	h.waitFresh(t, 4)
	if d := cmp.Diff(before, onlyOne(t, es)); d != "" {
		t.Errorf("endpoints moved: %s", d)
	}
	if x := a.value("take_overs_total") + b.value("take_overs_total"); x != 0 {
		t.Errorf("%d take-overs", x)
	}
}

func TestLoadsAreSplit(t *testing.T) {
	n := kittest.StartNATS(t, 0, func(o *server.Options) { o.MaxPayload = 4096 })
	var es []*engineServer
	for i := range 20 {
		long := strings.Repeat("x", 250) // 20 of them do not fit into one message
		es = append(es, newEngine(t, page(i, 0, 0)+fmt.Sprintf("vllm:lora_requests_info{max_lora=\"1\",running_lora_adapters=\"%s\",waiting_lora_adapters=\"\"} 1\n", long)))
	}
	h := startHolder(t, n.URL)
	startCollector(t, testConfig(n.URL, "a", es...))
	h.waitFresh(t, 20)
	for i, a := range h.Snapshot().Adapters {
		if a == nil || len(a.Running) != 1 {
			t.Errorf("endpoint %d: adapters %v", i, a)
		}
	}
}

func TestRunRefusesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"unknown flag":      {[]string{"--endpoint"}, []string{"flag provided but not defined"}},
		"missing config":    {[]string{"--config", dir + "/none.yaml"}, []string{"none.yaml", "check the path given with --config"}},
		"faults":            {[]string{"--config", file("c.yaml", "scrape: {maxShare: 2, intervall: 1s}\nbroadcast: {deadAfter: 100ms}\nendpoints: [{address: 10.0.0.1}]\n")}, []string{"c.yaml:1:23: scrape.intervall: unknown key; did you mean interval?", "c.yaml:1:20: scrape.maxShare: must be above 0", "c.yaml:2:24: broadcast.deadAfter: must be at least two", "endpoints[0].port: must be from 1"}},
		"missing endpoints": {[]string{"--set", "endpointsFile=" + dir + "/none.yaml", "--set", "admin.address="}, []string{"endpointsFile: open " + dir + "/none.yaml"}},
		"empty pool":        {[]string{"--set", "pool="}, []string{"pool: must not be empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := Run(t.Context(), c.args, &bytes.Buffer{})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q:\n%v", want, err)
				}
			}
		})
	}
	var out bytes.Buffer
	if err := Run(t.Context(), []string{"--help"}, &out); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "--pool") {
		t.Errorf("help: %v, %s", err, out.String())
	}
}

func TestRun(t *testing.T) {
	nats := kittest.NATS(t)
	e := newEngine(t, page(1, 2, 0.5))
	h := startHolder(t, nats)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, []string{
			"--pool", "default", "--set", "nats.url=" + nats, "--set", "admin.address=",
			"--set", fmt.Sprintf("endpoints=[{address: 127.0.0.1, port: %d}]", e.port),
		}, &bytes.Buffer{})
	}()
	h.waitFresh(t, 1)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("a clean stop ends with %v", err)
	}
}

func TestFlagsNameThePool(t *testing.T) {
	for args, want := range map[string][3]string{ // pool, poolName, poolNamespace
		"":                                   {"default", "", ""},
		"--pool a":                           {"a", "", ""},
		"--poolName a":                       {"a", "a", ""},
		"--poolName a --poolNamespace n":     {"n/a", "a", "n"},
		"--pool-name=a --pool-namespace=n":   {"n/a", "a", "n"},
		"--poolName a --pool b":              {"b", "a", ""},
		"--set kubernetes.poolName=a":        {"default", "a", ""},
		"--watchAllPools --kubeconfig /none": {"default", "", ""},
	} {
		cfg, err := load(strings.Fields(args), &bytes.Buffer{})
		if err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if got := [3]string{cfg.Pool, cfg.Kubernetes.PoolName, cfg.Kubernetes.PoolNamespace}; got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	for args, want := range map[string]string{
		"--poolNamespace n":                  "without --poolName",
		"--poolName a --watchAllPools":       "cannot be combined with poolName",
		"--poolName a --set endpointsFile=x": "kubernetes: cannot be combined with endpoints",
	} {
		if _, err := load(strings.Fields(args), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
