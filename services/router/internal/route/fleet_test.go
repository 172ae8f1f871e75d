package route_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// job is one request at an engine.
type job struct {
	req    *route.Request
	res    route.Reservation
	at     int32
	ends   int64 // once it runs
	failed bool
}

// sim is one engine: so many requests run at once, so many adapters fit.
type sim struct {
	running, waiting []*job
	resident         []string       // adapters, the least recently used first
	loads            map[string]int // of adapters
	picks            int
	holds            bool // the shared prefix
}

// fleet is a scheduler and engines that work in a time of their own, so that hours of
// traffic take no time and come out the same.
type fleet struct {
	*route.Scheduler
	t    testing.TB
	r    *roster.Roster
	now  int64
	pods []*sim
	rand *rand.Rand

	slots    int                                 // requests that run at once
	adapters int                                 // that fit at once; 0: there are none
	kv       float32                             // of the cache that each running request takes
	takes    func(j *job) time.Duration          // how long a request runs; it may set failed
	ended    func(j *job)                        // nil: nobody wants to know
	scored   func(c *route.Cycle) []route.Scores // asked with c.Snapshot
}

func newFleet(t testing.TB, pods int, weights ...float64) *fleet {
	f := &fleet{t: t, now: int64(time.Hour), pods: make([]*sim, pods), rand: rand.New(rand.NewPCG(1, 2)), slots: 1 << 20}
	f.r = roster.New(roster.Config{Clock: func() int64 { return f.now }})
	endpoints := make([]roster.Endpoint, pods)
	for i := range endpoints {
		f.pods[i] = &sim{loads: map[string]int{}}
		endpoints[i] = roster.Endpoint{ID: roster.ID(fmt.Sprintf("pod-%04d", i)), Host: fmt.Sprintf("192.168.1.%d", i+1), Port: 8000}
	}
	table, err := roster.NewTable(endpoints)
	if err != nil {
		t.Fatal(err)
	}
	f.r.SetTable(table)
	f.use(route.Deps{}, weights...)
	return f
}

// use makes the scheduler.
func (f *fleet) use(deps route.Deps, weights ...float64) {
	deps.Roster, deps.Ledger, deps.Fan = f.r, newLedger(f.r), f
	var err error
	if f.Scheduler, err = route.NewScheduler(deps); err != nil {
		f.t.Fatal(err)
	}
	f.Use(with{scorers: scorers(weights...)}.config())
}

// Score implements route.Fan. All endpoints are candidates, or those who are not out.
func (f *fleet) Score(_ context.Context, c *route.Cycle, _ []route.Scorer, candidates []int32, out []route.Scores) {
	for i, all := range f.scored(c) {
		values := make([]float32, 0, len(candidates))
		for _, pos := range candidates {
			values = append(values, all.Values[pos])
		}
		all.Values = values
		out[i] = all
	}
}

// compared is the formula of queue-scorer and running-requests-size-scorer.
func compared(c *route.Cycle, column []int32) route.Scores {
	s := route.Scores{Verdict: route.Scored, RequestsPerPoint: 8, Values: make([]float32, len(column))}
	counts := make([]int64, len(column))
	for i := range column {
		credit, _ := c.Snapshot.Credit(i)
		counts[i] = int64(column[i]) + credit
	}
	least, most := slices.Min(counts), slices.Max(counts)
	if slices.Min(column) != slices.Max(column) {
		s.RequestsPerPoint = 1
	}
	s.RequestsPerPoint = max(s.RequestsPerPoint, float64(most-least))
	for i, n := range counts {
		s.Values[i] = float32(1 - float64(n-least)/s.RequestsPerPoint)
	}
	return s
}

// each is a scorer that rates every endpoint for itself.
func each(n int, rate func(pos int) float32) route.Scores {
	s := route.Scores{Verdict: route.Scored, Values: make([]float32, n)}
	for i := range s.Values {
		s.Values[i] = rate(i)
	}
	return s
}

// room is the formula of kv-cache-scorer.
func room(c *route.Cycle) route.Scores {
	return each(c.Snapshot.Len(), func(pos int) float32 { return 1 - c.Snapshot.KV[pos] })
}

// send has a request picked and puts it to the engine.
func (f *fleet) send(req *route.Request) {
	req.Headers = route.NoHeaders{}
	d := f.Decide(context.Background(), req)
	if d.Err != nil {
		f.t.Fatal(d.Err)
	}
	pos, _ := f.r.Snapshot().Table.Position(d.Endpoint.ID)
	p := f.pods[pos]
	p.picks++
	p.waiting = append(p.waiting, &job{req: req, res: d.Reservation, at: int32(pos)})
	f.start(p)
}

// start lets run what waits, as far as there is room.
func (f *fleet) start(p *sim) {
	p.waiting = slices.DeleteFunc(p.waiting, func(j *job) bool {
		if len(p.running) >= f.slots || !f.load(p, j.req.Adapter) {
			return false
		}
		j.ends = f.now + int64(f.takes(j))
		p.running = append(p.running, j)
		return true
	})
}

// load makes an adapter resident, in place of the one that nobody has used for
// longest. False: those that are run take all the slots.
func (f *fleet) load(p *sim, adapter string) bool {
	if f.adapters == 0 {
		return true
	}
	at := slices.Index(p.resident, adapter)
	if at < 0 && len(p.resident) == f.adapters {
		at = slices.IndexFunc(p.resident, func(a string) bool { return !uses(p.running, a) })
		if at < 0 {
			return false
		}
	}
	if at < 0 || p.resident[at] != adapter {
		p.loads[adapter]++
	}
	if at >= 0 {
		p.resident = slices.Delete(p.resident, at, at+1)
	}
	p.resident = append(p.resident, adapter)
	return true
}

func uses(jobs []*job, adapter string) bool {
	return slices.ContainsFunc(jobs, func(j *job) bool { return j.req.Adapter == adapter })
}

// pass lets time pass, a millisecond at once; engines are read every 100 of them.
func (f *fleet) pass(d time.Duration) {
	for range d / time.Millisecond {
		f.now += int64(time.Millisecond)
		for _, p := range f.pods {
			var over []*job
			p.running = slices.DeleteFunc(p.running, func(j *job) bool {
				if f.now < j.ends {
					return false
				}
				over = append(over, j)
				return true
			})
			f.start(p)
			for _, j := range over {
				j.res.Finish(!j.failed, route.NoUsage())
				if f.ended != nil {
					f.ended(j)
				}
			}
		}
		if f.now/int64(time.Millisecond)%100 == 0 {
			f.scrape()
		}
	}
}

func (f *fleet) scrape() {
	l := roster.Loads{TableDigest: f.r.Snapshot().Table.Digest, Adapters: map[uint32]*roster.Adapters{}}
	for i, p := range f.pods {
		l.AgeMS = append(l.AgeMS, 0)
		l.Waiting, l.Running = append(l.Waiting, int32(len(p.waiting))), append(l.Running, int32(len(p.running)))
		l.KV = append(l.KV, min(1, f.kv*float32(len(p.running))))
		if f.adapters > 0 {
			l.Adapters[uint32(i)] = &roster.Adapters{Running: adaptersOf(p.running), Waiting: adaptersOf(p.waiting), Max: uint32(f.adapters)}
		}
	}
	if err := f.r.ApplyLoads(l, f.now); err != nil {
		f.t.Fatal(err)
	}
}

func adaptersOf(jobs []*job) []string {
	var all []string
	for _, j := range jobs {
		all = append(all, j.req.Adapter)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// picks returns the picks per endpoint.
func (f *fleet) picks() []int {
	var all []int
	for _, p := range f.pods {
		all = append(all, p.picks)
	}
	return all
}
