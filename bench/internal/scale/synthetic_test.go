package scale

import (
	"math"

	"github.com/pointsman/pointsman/bench/internal/report"
	"github.com/pointsman/pointsman/bench/internal/traffic"
)

// exactly is a figure that was the same in all rounds.
func exactly(v float64) report.Stat { return report.Stat{Median: v, Min: v, Max: v} }

// truth is what synthetic rows are made of: a constant for each term of each formula.
func truth() map[string]map[string]float64 {
	return map[string]map[string]float64{
		router + perPickKey:      {"1": 50, "k": 1.5, "e": 0.02, "(R−1)": 3, "R·m": 9},
		queue + perPickKey:       {"1": 4, "e": 0.002, "n": 2, "n·m": 15},
		kv + perPickKey:          {"1": 5, "e": 0.003, "n": 1, "n·m": 12},
		indexer + perPickKey:     {"1": 6, "e": 0.01, "n": 3, "n·m": 20, "b": 0.01, "n·b": 0.06},
		bus + perPickKey:         {"m": 20, "m'": 3, "q": 1},
		router + perSecondKey:    {"1": 4000, "e": 1.6},
		queue + perSecondKey:     {"1": 3600, "e": 3},
		kv + perSecondKey:        {"1": 3500, "e": 2},
		indexer + perSecondKey:   {"1": 3700, "e": 2.5},
		bus + perSecondKey:       {"1": 4000, "N": 300, "N·e": 0.2},
		collector + perSecondKey: {"1": 12000, "e": 20, "e/τ": 36},
		"table" + bytesKey:       {"1": 60, "e": 64},
		"load" + bytesKey:        {"1": 1000, "e": 160},
		"outcome" + bytesKey:     {"A": 45, "r": 50},
		"prefix" + bytesKey:      {"A": 35, "r": 20, "r·b": 8},
		flow + messagesKey:       {"A₁": 1.8, "A₂": 2.2},
		router + residentKey:     {"1": 40, "e": 0.01},
		queue + residentKey:      {"1": 26, "e": 0.002},
		kv + residentKey:         {"1": 25, "e": 0.001},
		bus + residentKey:        {"1": 28, "e": 0.004},
	}
}

const (
	perPickKey   = ": " + string(perPick)
	perSecondKey = ": " + string(perSecond)
	bytesKey     = ": " + string(bytesIn)
	messagesKey  = ": " + string(messagesIn)
	residentKey  = ": " + string(residentMiB)
)

// made is a figure by the truth.
func made(key string, p Point) float64 {
	sum := 0.0
	constants := truth()[key]
	for _, f := range figures() {
		if f.of+": "+string(f.unit) != key {
			continue
		}
		for _, t := range f.terms {
			if c := constants[t.name]; c != 0 {
				sum += c * t.at(p)
			}
		}
	}
	return sum
}

// synthetic are the rows that the run of record would have if the truth held.
func synthetic() []Row {
	var rows []Row
	for _, s := range DefaultConfig().Setups {
		for i, c := range s.cases() {
			w := Row{Case: c, Rounds: 3}
			p := pointOf(&w)
			if c.Load != Idle {
				p.Picks = 500
				if c.Load == Closed {
					p.Picks = 7000 / math.Sqrt(float64(c.Routers*c.Scorers))
				}
				w.PicksPerSecond = exactly(p.Picks)
				p.In = made(flow+messagesKey, p) / p.Picks
				p.Out, p.OutKB = p.In*p.receivers(), 0.1*p.receivers()+float64(i)*0.3
				w.NATSPerPick = Traffic{MessagesIn: exactly(p.In), MessagesOut: exactly(p.Out), BytesOut: exactly(p.OutKB * kb)}
			}
			for _, kind := range kinds() {
				k := Kind{Name: kind, Replicas: c.replicas(kind), CPU: exactly(made(kind+perSecondKey, p) * float64(c.replicas(kind)))}
				if c.Load != Idle && kind != collector {
					k.PickMicros = exactly(made(kind+perPickKey, p))
					k.ResidentMiB = exactly(made(kind+residentKey, p))
				}
				w.Kinds = append(w.Kinds, k)
			}
			if c.Load == Open {
				w.Counted = &Counted{PicksPerSecond: 450, Subjects: make(map[string]traffic.Flow)}
				p.Picks = 450
				for _, noun := range []string{"table", "load", "outcome", "prefix"} {
					w.Counted.Subjects[noun] = traffic.Flow{Messages: 10, Bytes: made(noun+bytesKey, p)}
				}
			}
			rows = append(rows, w)
		}
	}
	return rows
}
