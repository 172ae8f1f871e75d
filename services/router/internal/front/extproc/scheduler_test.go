package extproc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/epconfig"
	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

// scorers are the services, as far as these tests need them: they resolve types, and
// score by the formulas of the reference.
type scorers struct{}

func (scorers) Types() []string {
	return []string{"queue-scorer", "kv-cache-utilization-scorer", "lora-affinity-scorer"}
}

func (scorers) Resolve(string, string, []byte) (string, any, bool, []string, error) {
	return "test", nil, false, nil, nil
}

func (scorers) Score(_ context.Context, c *route.Cycle, scorers []route.Scorer, candidates []int32, out []route.Scores) {
	for i, s := range scorers {
		out[i] = route.Scores{Verdict: route.Scored, Values: make([]float32, len(candidates))}
		least, most := int32(1<<30), int32(0)
		for _, pos := range candidates {
			least, most = min(least, c.Snapshot.Waiting[pos]), max(most, c.Snapshot.Waiting[pos])
		}
		for k, pos := range candidates {
			switch s.Type {
			case "queue-scorer":
				out[i].Values[k] = 1
				if most > least {
					out[i].Values[k] = float32(most-c.Snapshot.Waiting[pos]) / float32(most-least)
				}
			case "kv-cache-utilization-scorer":
				out[i].Values[k] = 1 - c.Snapshot.KV[pos]
			case "lora-affinity-scorer":
				if a := c.Snapshot.Adapters[pos]; a != nil && slices.Contains(a.Running, c.Request.Model) {
					out[i].Values[k] = 1
				} else if a != nil && len(a.Running) < int(a.Max) {
					out[i].Values[k] = .8
				}
			}
		}
	}
}

// ledger reserves in a roster.
type ledger struct {
	r    *roster.Roster
	mu   sync.Mutex
	last uint64
	open int
}

func (l *ledger) Reserve(_ *route.Cycle, e *roster.Endpoint, _ *route.ProfileResult) route.Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.open++
	l.r.Pick("self", l.last, e.ID, 0, l.r.Now())
	return &held{l: l, id: l.last}
}

func (l *ledger) reserved() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

type held struct {
	l    *ledger
	id   uint64
	once sync.Once
}

func (*held) PickID() string        { return "" }
func (*held) FirstToken()           {}
func (*held) Move(*roster.Endpoint) {}
func (h *held) Finish(bool, route.Usage) {
	h.once.Do(func() {
		h.l.mu.Lock()
		defer h.l.mu.Unlock()
		h.l.open--
		h.l.r.Finish("self", h.id)
	})
}

// scheduled is a rig that decides with the scheduler, by the configuration.
func scheduled(t *testing.T, config string, fan route.Fan, pods ...routetest.Pod) (*rig, *ledger) {
	t.Helper()
	loaded, err := epconfig.Load("test", []byte(config), epconfig.Deps{Scorers: scorers{}})
	if err != nil {
		t.Fatal(err)
	}
	pool := routetest.Roster(t, pods...)
	l := &ledger{r: pool}
	s, err := route.NewScheduler(route.Deps{Roster: pool, Fan: fan, Ledger: l})
	if err != nil {
		t.Fatal(err)
	}
	s.Use(loaded.Config)
	r := newRig(t, func(r *rig, _ *Config) {
		r.roster, r.decider = pool, s
	})
	t.Cleanup(func() {
		kittest.Eventually(t, "the reservations to end", func() bool { return l.reserved() == 0 })
	})
	return r, l
}

const header = "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\n"

// seedTree is the configuration that the seed's generation ships.
const seedTree = header + `
plugins:
- {type: low-queue-filter, parameters: {threshold: 128}}
- {type: lora-affinity-filter, parameters: {threshold: 0.999}}
- {type: least-queue-filter}
- {type: least-kv-cache-filter}
- type: decision-tree-filter
  name: low-latency-filter
  parameters:
    current: {pluginRef: low-queue-filter}
    nextOnSuccess:
      decisionTree:
        current: {pluginRef: lora-affinity-filter}
        nextOnSuccessOrFailure:
          decisionTree:
            current: {pluginRef: least-queue-filter}
            nextOnSuccessOrFailure:
              decisionTree:
                current: {pluginRef: least-kv-cache-filter}
    nextOnFailure:
      decisionTree:
        current: {pluginRef: least-queue-filter}
        nextOnSuccessOrFailure:
          decisionTree:
            current: {pluginRef: lora-affinity-filter}
            nextOnSuccessOrFailure:
              decisionTree:
                current: {pluginRef: least-kv-cache-filter}
- {type: random-picker, parameters: {maxNumOfEndpoints: 1}}
- {type: single-profile-handler}
schedulingProfiles:
- name: default
  plugins: [{pluginRef: low-latency-filter}, {pluginRef: random-picker}]
`

// newest is the newest generation's default in its hermetic tests, less the prefix.
const newest = header + `
plugins: [{type: queue-scorer}, {type: kv-cache-utilization-scorer}, {type: lora-affinity-scorer}, {type: max-score-picker}, {type: single-profile-handler}]
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 1}
  - {pluginRef: kv-cache-utilization-scorer, weight: 1}
  - {pluginRef: lora-affinity-scorer, weight: 1}
  - {pluginRef: max-score-picker}
`

// The hermetic tests of both generations, with the scheduler: where a request goes.
// Criticality (A5) and metrics of the reference's names are not the front's.
func TestHermetic(t *testing.T) {
	pod := func(queue int32, kv float32, adapters string) routetest.Pod {
		p := routetest.Pod{Waiting: queue, KV: kv, Max: 4}
		if adapters != "" {
			p.Active = strings.Split(adapters, ",")
		}
		return p
	}
	three := []routetest.Pod{pod(3, .2, ""), pod(0, .1, ""), pod(10, .2, "")}
	adapters := []routetest.Pod{pod(0, .2, "foo,bar"), pod(0, .1, "foo,sql-lora-1fdg2"), pod(10, .2, "foo")}
	for _, c := range []struct {
		id, config, model string
		pods              []routetest.Pod
		subset            any
		want              string // "": 503
	}{
		{"A1", seedTree, "my-model", three, nil, ".2"},
		{"A3", seedTree, "sql-lora-1fdg2", adapters, nil, ".2"},
		{"A4", seedTree, "sql-lora-1fdg2", []routetest.Pod{pod(10, .2, "foo,bar"), pod(200, .1, "foo,sql-lora-1fdg2"), pod(6, .2, "foo")}, nil, ".3"},
		{"A14", seedTree, "sql-lora-1fdg2", adapters, []any{"192.168.1.1:8000", "192.168.1.2:8000", "192.168.1.3:8000"}, ".2"},
		{"A16", seedTree, "sql-lora-1fdg2", adapters, []any{"192.168.1.4:8000", "192.168.1.5:8000", "192.168.1.6:8000"}, ""},
		{"A16 empty pool", seedTree, "my-model", nil, nil, ""},
		{"B1", newest, "my-model", three, nil, ".2"},
		{"B3", newest, "target", []routetest.Pod{{Waiting: 10, KV: .2, Active: []string{"bar", "foo"}, Max: 2}, pod(10, .4, "foo,target"), {Waiting: 10, KV: .3, Active: []string{"foo"}, Max: 1}}, nil, ".2"},
		{"B4", newest, "target", []routetest.Pod{pod(6, .2, "target"), {Waiting: 0, KV: .85, Active: []string{"foo"}, Max: 1}, {Waiting: 10, KV: .9, Active: []string{"foo"}, Max: 1}}, nil, ".1"},
		{"B7", newest, "m", []routetest.Pod{pod(4, .2, ""), pod(4, .85, "")}, nil, ".1"},
		{"B10 all", newest, "target", []routetest.Pod{pod(0, .2, ""), pod(0, .1, "target"), pod(10, .2, "")}, []any{"192.168.1.1:8000", "192.168.1.2:8000", "192.168.1.3:8000"}, ".2"},
		{"B10 one", newest, "target", []routetest.Pod{pod(0, .2, ""), pod(0, .1, "target"), pod(10, .2, "")}, []any{"192.168.1.3:8000"}, ".3"},
		{"B10 none", newest, "target", []routetest.Pod{pod(0, .2, ""), pod(0, .1, "target"), pod(10, .2, "")}, []any{"192.168.1.99:8000"}, ""},
		{"B12", newest, "m", []routetest.Pod{pod(0, .1, "")}, nil, ".1"},
		{"I subset without ports", newest, "m", []routetest.Pod{pod(9, .9, ""), pod(0, .1, "")}, []any{"192.168.1.1", "192.168.1.9"}, ".1"},
		{"I comma string", newest, "m", []routetest.Pod{pod(9, .9, ""), pod(0, .1, "")}, "192.168.1.1:8000,192.168.1.9:8000", ".1"},
	} {
		t.Run(c.id, func(t *testing.T) {
			r, _ := scheduled(t, c.config, scorers{}, c.pods...)
			methods := []string{"POST", "GET"}
			if c.config == seedTree && slices.ContainsFunc(c.pods, func(p routetest.Pod) bool { return len(p.Active) > 0 }) {
				methods = methods[:1] // where it goes depends on the adapter, which only a body names
			}
			for _, method := range methods {
				p := r.duplex()
				if c.subset != nil {
					p.allow(c.subset)
				}
				body := fmt.Sprintf(`{"max_tokens":100,"model":%q,"prompt":"test","temperature":0}`, c.model)
				if method == "POST" {
					p.post("/v1/completions", body, "hi", "mom")
				} else {
					p.headers("GET", "/v1/models", true)
				}
				if c.want == "" {
					if got := p.refused(); got.Status != 503 || got.Reason != "no-endpoint" {
						t.Errorf("refused with %+v", got)
					}
					continue
				}
				p.to("192.168.1" + c.want + ":8000")
				if method == "POST" {
					p.same(body)
				}
				p.finish()
			}
		})
	}
}

// A5: nobody has room. (Which requests are shed by their priority is package admission's.)
func TestShed(t *testing.T) {
	config := header + `
plugins: [{type: low-queue-filter, parameters: {threshold: 5}}, {type: random-picker}, {type: single-profile-handler}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: low-queue-filter}, {pluginRef: random-picker}]}]
`
	r, _ := scheduled(t, config, scorers{}, routetest.Pod{Waiting: 6}, routetest.Pod{Waiting: 10})
	p := r.duplex()
	p.post("/v1/completions", `{"model":"m","prompt":"x"}`)
	if got := p.refused(); got.Status != 429 || got.Reason != "shed" || got.Headers["retry-after"] == "" {
		t.Errorf("refused with %+v", got)
	}
}

// K: as many endpoints are named as the picker is configured for, in the order of their
// scores.
func TestMaxNumOfEndpoints(t *testing.T) {
	config := strings.Replace(newest, "{type: max-score-picker}", "{type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}", 1)
	r, _ := scheduled(t, config, scorers{}, routetest.Pod{Waiting: 9}, routetest.Pod{Waiting: 5}, routetest.Pod{Waiting: 0})
	p := r.duplex()
	p.post("/v1/completions", `{"model":"m","prompt":"x"}`)
	p.to("192.168.1.3:8000,192.168.1.2:8000")
	p.echoed()
	p.finish()
}

// hanging is a Fan whose own time is without end: it waits for as long as the request
// allows.
type hanging struct{}

func (hanging) Score(ctx context.Context, c *route.Cycle, _ []route.Scorer, _ []int32, out []route.Scores) {
	ctx, cancel := context.WithDeadline(ctx, c.Request.Deadline)
	defer cancel()
	<-ctx.Done()
	for i := range out {
		out[i] = route.Scores{Verdict: route.TimedOut, Reason: "no answer in time"}
	}
}

// B050: scorers that hang cost the decision's time and no more; the least loaded endpoint
// is picked, in one decision.
func TestHangingScorers(t *testing.T) {
	r, _ := scheduled(t, newest, hanging{}, routetest.Pod{Waiting: 6}, routetest.Pod{Waiting: 0}, routetest.Pod{Waiting: 9})
	p := r.duplex()
	p.post("/v1/completions", `{"model":"m","prompt":"x"}`)
	p.to("192.168.1.2:8000")
	p.echoed()
	p.finish()
	if got := r.count("decisions_total", "basis", "cheap"); got != 1 || r.count("decisions_total") != 1 {
		t.Errorf("%d decisions by the load, %d in all", got, r.count("decisions_total"))
	}
}

// K, several profiles and pools aside: concurrent requests spread, and every one of them
// is released.
func TestManyAtOnce(t *testing.T) {
	r, l := scheduled(t, newest, scorers{}, make([]routetest.Pod, 8)...)
	var done sync.WaitGroup
	errs := make(chan error, 64)
	for range 64 {
		done.Go(func() {
			for range 5 {
				p := r.duplex()
				p.post("/v1/completions", `{"model":"m","prompt":"x"}`)
				p.routed()
				if body, _ := p.echoed(); body != `{"model":"m","prompt":"x"}` {
					errs <- errors.New("the body was changed")
				}
				p.answer(200, false)
				p.recv()
				p.cancel()
			}
		})
	}
	done.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	kittest.Eventually(t, "the reservations to end", func() bool { return l.reserved() == 0 })
	if l.last != 320 {
		t.Errorf("%d reservations were made", l.last)
	}
}
