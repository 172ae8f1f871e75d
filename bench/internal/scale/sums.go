package scale

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// What is set against the sums.
const (
	mostCandidates = 4096   // in one call of a scorer, by the contract
	linkMB         = 1250.0 // per second, of a NATS server with 10 Gbit/s
	// newBlocks is how many blocks of prompts that are new an index learns per second, one
	// after the other: docs/bench/prefix-index.md, on a machine that is not the fastest. Those of the run are known after a while.
	newBlocks = 5e6
)

// Pools are what sums are made for: a small one, a large one, and one that is too large.
func Pools() []Point {
	return []Point{
		{Endpoints: 100, Picks: 1000, KB: 8, Routers: 2, Scorers: 2, Indexers: 2, Scrape: 50 * time.Millisecond},
		{Endpoints: 1000, Picks: 10_000, KB: 8, Routers: 4, Scorers: 2, Indexers: 2, Scrape: time.Second},
		{Endpoints: 10_000, Picks: 100_000, KB: 8, Routers: 40, Scorers: 3, Indexers: 4, Scrape: time.Second},
	}
}

// Sum is what formulas make of a pool.
type Sum struct {
	Point
	// Cores are processors in use, by kind, of all replicas together.
	Cores map[string]float64
	// Following is how much of one processor one replica of each kind needs to follow the
	// broadcast. More replicas do not lessen it, and messages of a subject are taken one
	// after the other: 1 is the end.
	// FollowingError is its standard error by the fit.
	Following, FollowingError map[string]float64
	// InMB and OutMB pass through NATS per second, and Messages go out of it. PromptMB is
	// what of OutMB goes to one prefix-indexer as prompts.
	InMB, OutMB, PromptMB, Messages float64
	// Blocks are learned by each prefix-indexer per second.
	Blocks float64
}

// kinds are the processes that are summed up, in the order in which they are shown.
func kinds() []string { return []string{router, queue, kv, indexer, bus, collector} }

// SumOf sums a pool up, by the formulas of a saturated machine. It is an error if one
// that is needed could not be fitted.
func SumOf(formulas []Formula, p Point) (Sum, error) {
	var missing error
	find := func(of string, l Load, u Unit) *Formula {
		f := find(formulas, of, l, u)
		if f.Reason != "" {
			missing = cmp.Or(missing, fmt.Errorf("%s, %s: %s", of, u, f.Reason))
			return &Formula{}
		}
		return f
	}
	const million = 1e6
	outcomes, prompts := find("outcome", Open, bytesIn).At(p), find("prefix", Open, bytesIn).At(p)
	state := find("load", Open, bytesIn).At(p) + find("table", Open, bytesIn).At(p)
	n := p.receivers()
	p.In = find(flow, Closed, messagesIn).At(p) / p.Picks
	p.Out = p.In / 2 * (n + p.Indexers) // a batch of prompts goes with each of outcomes
	p.OutKB = (outcomes*n + prompts*p.Indexers) / p.Picks / kb
	s := Sum{
		Point: p, Cores: make(map[string]float64), Following: make(map[string]float64), FollowingError: make(map[string]float64),
		InMB: (outcomes + prompts + state) / million, OutMB: ((outcomes+state)*n + prompts*p.Indexers) / million,
		PromptMB: prompts / million, Messages: p.Out * p.Picks, Blocks: p.Picks * p.blocks(),
	}
	for _, kind := range kinds() {
		replicas := float64(p.replicas(kind))
		micros := find(kind, Idle, perSecond).At(p) * replicas
		if kind != collector {
			f := find(kind, Closed, perPick)
			micros += f.At(p) * p.Picks
			if kind != bus {
				x := f.heard(p)
				each := p.Picks / replicas / million
				s.Following[kind], s.FollowingError[kind] = f.Model.At(x...)*each, f.ErrorAt(x...)*each
			}
		}
		s.Cores[kind] = micros / million
	}
	return s, missing
}

// find returns a formula; one that says so if there is none.
func find(formulas []Formula, of string, l Load, u Unit) *Formula {
	for i := range formulas {
		if f := &formulas[i]; f.Of == of && f.Load == l && f.Unit == u {
			return f
		}
	}
	return &Formula{Reason: "no formula"}
}

// replicas is how many processes of a kind a pool has.
func (p Point) replicas(kind string) int {
	return Case{Routers: int(p.Routers), Indexers: int(p.Indexers), Scorers: int(p.Scorers)}.replicas(kind)
}

// heard are the values of a formula's terms at a point, without those that are not the
// broadcast's.
func (f *Formula) heard(p Point) []float64 {
	x := values(f.terms, p)
	for i, t := range f.terms {
		if !slices.Contains([]string{"n", "n·m", "n·b", "(R−1)", "R·m"}, t.name) {
			x[i] = 0
		}
	}
	return x
}

// Limit is something that a pool needs, and how much of it there is.
type Limit struct {
	What        string
	Needs, Has  float64
	Error       float64 // of Needs, if that is fitted
	Unit        string
	ByEndpoints bool // it grows with endpoints alone, and not with picks
}

// Used is the share that is needed, above 1 if it is not enough.
func (l Limit) Used() float64 { return l.Needs / l.Has }

// Limits are what cannot be mended by more replicas, the scarcest first.
func (s *Sum) Limits() []Limit {
	all := []Limit{
		{What: "candidates in one call of a scorer", Needs: s.Endpoints, Has: mostCandidates, Unit: "endpoints", ByEndpoints: true},
		{What: "bytes out of one NATS server with 10 Gbit/s", Needs: s.OutMB, Has: linkMB, Unit: "MB/s"},
		{What: "learning prompts of which nothing is known, each prefix-indexer", Needs: s.Blocks, Has: newBlocks, Unit: "blocks/s of one core"},
	}
	for kind, share := range s.Following {
		all = append(all, Limit{What: "following the broadcast, each " + kind, Needs: share, Error: s.FollowingError[kind], Has: 1, Unit: "of one core"})
	}
	slices.SortFunc(all, func(a, b Limit) int { return cmp.Or(-cmp.Compare(a.Used(), b.Used()), cmp.Compare(a.What, b.What)) })
	return all
}
