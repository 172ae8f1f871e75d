package route_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pointsman/pointsman/services/router/internal/quarantine"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// B130: all requests share a long prefix, and their rate climbs from 0.2 to 6 a second.
// Whoever has the prefix is preferred, until requests pile up there.
func TestB130ASharedPrefixLeavesNobodyIdle(t *testing.T) {
	type scored = func(f *fleet, c *route.Cycle) []route.Scores
	prefix := func(f *fleet) route.Scores {
		return each(len(f.pods), func(pos int) float32 {
			if f.pods[pos].holds {
				return 1
			}
			return 0
		})
	}
	defaults := func(f *fleet, c *route.Cycle) []route.Scores {
		return []route.Scores{compared(c, c.Snapshot.Waiting), room(c), prefix(f)}
	}
	for _, c := range []struct {
		name    string
		slots   int
		kv      float32
		weights []float64
		scored  scored
		least   int // endpoints used
		most    int
	}{
		{"default weights, 8 run at once", 8, .12, []float64{2, 2, 3}, defaults, 6, 8},
		// The figures of the row: nobody ever waits, and caches are all but empty. To the
		// default weights all endpoints are then alike but for the prefix, so what runs
		// has to be looked at too. What that is worth is measured in docs/tuning.md.
		{"running requests weigh more than the prefix", 1 << 20, .001, []float64{2, 2, 3, 4}, func(f *fleet, c *route.Cycle) []route.Scores {
			return append(defaults(f, c), compared(c, c.Snapshot.Running))
		}, 6, 8},
		// So that the others can fail.
		{"the prefix alone", 8, .12, []float64{3}, func(f *fleet, _ *route.Cycle) []route.Scores { return []route.Scores{prefix(f)} }, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, 8, c.weights...)
			f.slots, f.kv = c.slots, c.kv
			f.takes = func(*job) time.Duration { return 8 * time.Second }
			f.scored = func(cy *route.Cycle) []route.Scores { return c.scored(f, cy) }
			f.scrape()
			f.pods[0].holds = true
			waited := 0
			for rate := .2; rate < 6; rate += .02 {
				before := f.picks()
				f.send(&route.Request{ID: "r"})
				for i, n := range f.picks() {
					f.pods[i].holds = f.pods[i].holds || n > before[i]
				}
				f.pass(time.Duration(float64(time.Second) / rate))
				for _, p := range f.pods {
					waited = max(waited, len(p.waiting))
				}
			}
			used := 0
			for _, n := range f.picks() {
				if n > 0 {
					used++
				}
			}
			if used < c.least || used > c.most || c.least > 1 && waited > 4 {
				t.Errorf("%d endpoints used, want %d to %d; up to %d requests waited at one: %v", used, c.least, c.most, waited, f.picks())
			}
		})
	}
}

// B140: 512 unrelated prompts at a time, of all lengths, for 5 endpoints. Nobody holds
// anything of them, and nobody is preferred.
func TestB140UnrelatedPromptsSpreadEvenly(t *testing.T) {
	const requests = 5000
	run := func(prefix ...float32) []int {
		f := newFleet(t, 5, 2, 2, 3)
		f.slots, f.kv = 128, .007
		f.takes = func(*job) time.Duration { return time.Second + time.Duration(f.rand.Int64N(int64(3*time.Second))) }
		f.scored = func(c *route.Cycle) []route.Scores {
			return []route.Scores{compared(c, c.Snapshot.Waiting), room(c), each(5, func(pos int) float32 { return prefix[pos] })}
		}
		sent := 0
		next := func(*job) {
			if sent++; sent <= requests {
				f.send(&route.Request{ID: fmt.Sprint(sent)})
			}
		}
		f.ended = next
		f.scrape()
		for range 512 {
			next(nil)
		}
		for sent < requests {
			f.pass(100 * time.Millisecond)
		}
		return f.picks()
	}
	even := run(0, 0, 0, 0, 0)
	if slices.Min(even) < requests/5*8/10 || slices.Max(even) > requests/5*12/10 {
		t.Errorf("of %d, endpoints have %v", requests, even)
	}
	// The report's three that take everything, by points for what nobody holds.
	if uneven := run(1, 1, 1, 0, 0); slices.Min(uneven) >= requests/5*8/10 {
		t.Errorf("of %d, endpoints have %v in spite of points for three: the test shows nothing", requests, uneven)
	}
}

// B144: 32 adapters, four of them hot, for 4 endpoints with 4 slots each, by the formula of
// lora-affinity-scorer. Adapters stay on few endpoints and are loaded less often.
func TestB144AdaptersStayTogether(t *testing.T) {
	run := func(affinity float64) (hot, cold, widest int) {
		f := newFleet(t, 4, 1, affinity)
		f.adapters = 4
		f.takes = func(*job) time.Duration { return 500 * time.Millisecond }
		f.scored = func(c *route.Cycle) []route.Scores {
			return []route.Scores{compared(c, c.Snapshot.Waiting), each(4, func(pos int) float32 {
				a := c.Snapshot.Adapters[pos]
				switch {
				case slices.Contains(a.Running, c.Request.Adapter):
					return 1
				case len(a.Running)+len(a.Waiting) < int(a.Max):
					return .8
				case slices.Contains(a.Waiting, c.Request.Adapter):
					return .6
				default:
					return 0
				}
			})}
		}
		f.scrape()
		zipf := rand.NewZipf(f.rand, 1.3, 1, 31)
		for range 2000 {
			f.send(&route.Request{ID: "r", Adapter: fmt.Sprintf("adapter-%02d", zipf.Uint64())})
			f.pass(40 * time.Millisecond)
			on := make(map[string]int)
			for _, p := range f.pods {
				for _, a := range adaptersOf(p.running) {
					on[a]++
					widest = max(widest, on[a])
				}
			}
		}
		for _, p := range f.pods {
			for a, n := range p.loads {
				if a < "adapter-04" {
					hot += n
				} else {
					cold += n
				}
			}
		}
		return hot, cold, widest
	}
	hot, cold, widest := run(3)
	others, coldOthers, all := run(0)
	if widest > 2 || hot*2 > others || cold > coldOthers {
		t.Errorf("an adapter ran on up to %d endpoints, hot ones were loaded %d times, others %d; without the scorer on %d, %d and %d", widest, hot, cold, all, others, coldOthers)
	}
	if all != 4 {
		t.Errorf("without the scorer adapters ran on up to %d endpoints: the test shows nothing", all)
	}
}

// B145: one of four endpoints answers 500 within 2 ms, so that it looks idle.
func TestB145AFastFailingEndpointAttractsNothing(t *testing.T) {
	run := func(heed bool) (failed, requests int) {
		f := newFleet(t, 4, 1)
		q, err := quarantine.New(quarantine.DefaultConfig(), f.r.Now)
		if err != nil {
			t.Fatal(err)
		}
		if heed {
			f.use(route.Deps{Quarantine: q}, 1)
		}
		f.takes = func(j *job) time.Duration {
			if j.failed = j.at == 0; j.failed {
				return 2 * time.Millisecond
			}
			return 2 * time.Second
		}
		f.ended = func(j *job) {
			id := f.r.Snapshot().Table.Endpoints[j.at].ID
			if j.failed {
				q.Failed(id, "answered 500")
			} else {
				q.Succeeded(id)
			}
		}
		f.scored = func(c *route.Cycle) []route.Scores { return []route.Scores{compared(c, c.Snapshot.Running)} }
		f.scrape()
		for range 40 * 20 { // 20 s
			f.send(&route.Request{ID: "r"})
			f.pass(25 * time.Millisecond)
		}
		return f.pods[0].picks, 40 * 20
	}
	if failed, n := run(true); failed == 0 || failed > n/20 {
		t.Errorf("%d of %d requests went to the endpoint that fails", failed, n)
	}
	if failed, n := run(false); failed < n/4 {
		t.Errorf("%d of %d requests without quarantine: the test shows nothing", failed, n)
	}
}
