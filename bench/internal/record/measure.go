package record

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pointsman/pointsman/bench/internal/load"
	"github.com/pointsman/pointsman/bench/internal/mesh"
	"github.com/pointsman/pointsman/bench/internal/procstat"
	"github.com/pointsman/pointsman/bench/internal/report"
)

// window is one round: a warm-up, and the time that counts.
type window struct {
	warmUp, length time.Duration
}

// measure loads a subject for a window. busy are processes that take part in the
// benchmark beside the subject's, so that they are not taken for others' load.
func measure(ctx context.Context, s *mesh.Subject, cfg load.Config, w window, busy []int) (report.Round, error) {
	runner, err := load.Start(ctx, cfg)
	if err != nil {
		return report.Round{}, err
	}
	defer runner.Stop()
	if err := pause(ctx, w.warmUp); err != nil {
		return report.Round{}, err
	}
	before, err := s.Sample(ctx, true)
	if err != nil {
		return report.Round{}, err
	}
	ours, err := cpu(s, busy)
	if err != nil {
		return report.Round{}, err
	}
	machine, err := procstat.ReadMachine()
	if err != nil {
		return report.Round{}, err
	}
	runner.Begin()
	if err := pause(ctx, w.length); err != nil {
		return report.Round{}, err
	}
	result := runner.End()
	after, err := s.Sample(ctx, false)
	if err != nil {
		return report.Round{}, err
	}
	machineAfter, err := procstat.ReadMachine()
	if err != nil {
		return report.Round{}, err
	}
	oursAfter, err := cpu(s, busy)
	if err != nil {
		return report.Round{}, err
	}
	if result.Completed == 0 {
		return report.Round{}, fmt.Errorf("%s answered no request: %v", s.Name, result.Errors)
	}
	return round(s, result, before, after, machineAfter.Minus(machine), oursAfter-ours), nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// cpu is what this process, the subject and others that take part have used.
func cpu(s *mesh.Subject, busy []int) (time.Duration, error) {
	pids := append([]int{os.Getpid()}, busy...)
	for _, p := range s.Parts {
		pids = append(pids, p.PID)
	}
	var sum time.Duration
	for _, pid := range pids {
		d, err := procstat.CPU(pid)
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

func round(s *mesh.Subject, result load.Result, before, after []mesh.Sample, machine procstat.Machine, ours time.Duration) report.Round {
	n := float64(result.Completed)
	r := report.Round{
		Picks: result.Completed, Failures: result.Failed, Errors: result.Errors, PicksPerSecond: n / result.Window.Seconds(),
		P50Ms: ms(load.Quantile(result.Latencies, 0.5)), P99Ms: ms(load.Quantile(result.Latencies, 0.99)), LateP99Ms: ms(load.Quantile(result.Lateness, 0.99)),
	}
	for i, p := range s.Parts {
		used := after[i].Usage.Minus(before[i].Usage)
		part := report.PartRound{
			Name: p.Name, Counted: p.Counted, CPUMicros: float64(used.CPU.Nanoseconds()) / 1e3 / n, CPUShare: used.CPU.Seconds() / result.Window.Seconds(), Waits: float64(used.Waits) / n,
			Allocations: (after[i].Allocations - before[i].Allocations) / n, ResidentMiB: float64(used.ResidentBytes) / (1 << 20),
		}
		r.Parts = append(r.Parts, part)
		if p.Counted {
			r.CPUMicros += part.CPUMicros
			r.Waits += part.Waits
		}
		if calls := after[i].Calls - before[i].Calls; calls > 0 {
			r.UnansweredShare = 1 - (after[i].Answered-before[i].Answered)/calls
		}
	}
	if total := machine.Busy + machine.Idle + machine.Steal; total > 0 {
		r.StealShare = machine.Steal.Seconds() / total.Seconds()
		r.OtherShare = max(0, (machine.Busy-ours).Seconds()/total.Seconds())
	}
	return r
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
