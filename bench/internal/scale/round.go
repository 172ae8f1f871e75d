package scale

import (
	"time"

	"github.com/pointsman/pointsman/bench/internal/load"
	"github.com/pointsman/pointsman/bench/internal/measure"
	"github.com/pointsman/pointsman/bench/internal/mesh"
	"github.com/pointsman/pointsman/bench/internal/report"
	"github.com/pointsman/pointsman/bench/internal/traffic"
)

// round is the figures of one window, by second and by pick.
type round struct {
	rate, p50, p99           float64
	failures                 int
	errors                   map[string]int
	unanswered, steal, other float64
	kinds                    []kindRound
	perSecond, perPick       traffic.Server
	counted                  *Counted
}

type kindRound struct {
	name                string
	replicas            int
	cpu, pick, resident float64
}

// newRound sums up a window. idle is that of the same mesh without load; nil if this is it.
func newRound(s *mesh.Subject, f measure.Figures, idle *round) round {
	seconds := f.Result.Window.Seconds()
	r := round{
		rate: float64(f.Result.Completed) / seconds, failures: f.Result.Failed, errors: f.Result.Errors, steal: f.StealShare, other: f.OtherShare,
		p50: ms(load.Quantile(f.Result.Latencies, 0.5)), p99: ms(load.Quantile(f.Result.Latencies, 0.99)),
	}
	at := make(map[string]int)
	calls, answered := 0.0, 0.0
	for i, p := range s.Parts {
		used := &f.Parts[i]
		n, known := at[p.Name]
		if !known {
			n = len(r.kinds)
			at[p.Name] = n
			r.kinds = append(r.kinds, kindRound{name: p.Name})
		}
		k := &r.kinds[n]
		k.replicas++
		k.cpu += float64(used.Usage.CPU.Nanoseconds()) / 1e3 / seconds
		k.resident += float64(used.Usage.ResidentBytes) / (1 << 20)
		calls, answered = calls+used.Calls, answered+used.Answered
		if p.Monitor != "" {
			r.perSecond = times(used.Traffic, 1/seconds)
		}
	}
	if calls > 0 {
		r.unanswered = 1 - answered/calls
	}
	for i := range r.kinds {
		r.kinds[i].resident /= float64(r.kinds[i].replicas)
		if idle != nil {
			r.kinds[i].pick = (r.kinds[i].cpu - idle.kinds[i].cpu) / r.rate
		}
	}
	if idle != nil {
		r.perPick = times(r.perSecond.Minus(idle.perSecond), 1/r.rate)
	}
	return r
}

// pick is the CPU of a pick, over all kinds but the collector: it scrapes whoever picks.
func (r *round) pick() float64 {
	sum := 0.0
	for _, k := range r.kinds {
		if k.name != collector {
			sum += k.pick
		}
	}
	return sum
}

func times(s traffic.Server, by float64) traffic.Server {
	return traffic.Server{MessagesIn: s.MessagesIn * by, MessagesOut: s.MessagesOut * by, BytesIn: s.BytesIn * by, BytesOut: s.BytesOut * by}
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// newRow sums up the rounds of a case, of which there must be one at least.
func newRow(c Case, rounds []round) Row {
	stat := func(f func(*round) float64) report.Stat {
		values := make([]float64, len(rounds))
		for i := range rounds {
			values[i] = f(&rounds[i])
		}
		return report.NewStat(values)
	}
	passed := func(f func(*round) *traffic.Server) Traffic {
		return Traffic{
			MessagesIn:  stat(func(r *round) float64 { return f(r).MessagesIn }),
			MessagesOut: stat(func(r *round) float64 { return f(r).MessagesOut }),
			BytesIn:     stat(func(r *round) float64 { return f(r).BytesIn }),
			BytesOut:    stat(func(r *round) float64 { return f(r).BytesOut }),
		}
	}
	w := Row{
		Case: c, Rounds: len(rounds),
		PicksPerSecond:  stat(func(r *round) float64 { return r.rate }),
		P50Ms:           stat(func(r *round) float64 { return r.p50 }),
		P99Ms:           stat(func(r *round) float64 { return r.p99 }),
		PickMicros:      stat((*round).pick),
		UnansweredShare: stat(func(r *round) float64 { return r.unanswered }),
		StealShare:      stat(func(r *round) float64 { return r.steal }),
		OtherShare:      stat(func(r *round) float64 { return r.other }),
		NATS:            passed(func(r *round) *traffic.Server { return &r.perSecond }),
		NATSPerPick:     passed(func(r *round) *traffic.Server { return &r.perPick }),
	}
	for _, r := range rounds {
		w.Failures += r.failures
		for text, n := range r.errors {
			if w.Errors == nil {
				w.Errors = make(map[string]int)
			}
			w.Errors[text] += n
		}
		if r.counted != nil {
			w.Counted = r.counted
		}
	}
	for i, k := range rounds[0].kinds {
		w.Kinds = append(w.Kinds, Kind{
			Name: k.name, Replicas: k.replicas,
			CPU:         stat(func(r *round) float64 { return r.kinds[i].cpu }),
			PickMicros:  stat(func(r *round) float64 { return r.kinds[i].pick }),
			ResidentMiB: stat(func(r *round) float64 { return r.kinds[i].resident }),
		})
	}
	return w
}
