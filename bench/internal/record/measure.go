package record

import (
	"context"
	"time"

	"github.com/pointsman/pointsman/bench/internal/load"
	"github.com/pointsman/pointsman/bench/internal/measure"
	"github.com/pointsman/pointsman/bench/internal/mesh"
	"github.com/pointsman/pointsman/bench/internal/report"
)

// window is one round: a warm-up, and the time that counts.
type window struct {
	warmUp, length time.Duration
}

// measured loads a subject for a window. busy are processes that take part in the
// benchmark beside the subject's.
func measured(ctx context.Context, s *mesh.Subject, cfg load.Config, w window, busy []int) (report.Round, error) {
	f, err := measure.Loaded(ctx, s, cfg, measure.Window{WarmUp: w.warmUp, Length: w.length, Busy: busy})
	if err != nil {
		return report.Round{}, err
	}
	return round(s, f), nil
}

func round(s *mesh.Subject, f measure.Figures) report.Round {
	result, n := f.Result, float64(f.Result.Completed)
	r := report.Round{
		Picks: result.Completed, Failures: result.Failed, Errors: result.Errors, PicksPerSecond: n / result.Window.Seconds(),
		P50Ms: ms(load.Quantile(result.Latencies, 0.5)), P99Ms: ms(load.Quantile(result.Latencies, 0.99)), LateP99Ms: ms(load.Quantile(result.Lateness, 0.99)),
		StealShare: f.StealShare, OtherShare: f.OtherShare,
	}
	for i, p := range s.Parts {
		used := &f.Parts[i]
		part := report.PartRound{
			Name: p.Name, Counted: p.Counted, CPUMicros: float64(used.Usage.CPU.Nanoseconds()) / 1e3 / n, CPUShare: used.Usage.CPU.Seconds() / result.Window.Seconds(), Waits: float64(used.Usage.Waits) / n,
			Allocations: used.Allocations / n, ResidentMiB: float64(used.Usage.ResidentBytes) / (1 << 20),
		}
		r.Parts = append(r.Parts, part)
		if p.Counted {
			r.CPUMicros += part.CPUMicros
			r.Waits += part.Waits
		}
		if used.Calls > 0 {
			r.UnansweredShare = 1 - used.Answered/used.Calls
		}
	}
	return r
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
