package measure

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pointsman/pointsman/bench/internal/load"
	"github.com/pointsman/pointsman/bench/internal/mesh"
	"github.com/pointsman/pointsman/bench/internal/procstat"
)

// Window is one round.
type Window struct {
	// WarmUp comes before the time that counts.
	WarmUp, Length time.Duration
	// Busy are processes that take part in the benchmark beside the subject's, so that
	// they are not taken for others' load.
	Busy []int
	// Then, if there is one, is called after the end of a loaded window while the load is
	// still on, and may open the runner's window once more.
	Then func(ctx context.Context, r *load.Runner) error
}

// Figures are what a window brought.
type Figures struct {
	// Result is what came of the requests; without load only how long the window was.
	Result load.Result
	// Parts are what each part of the subject used, in order: differences, but for memory,
	// which is that at the end.
	Parts []mesh.Sample
	// StealShare and OtherShare are the hypervisor's share of the machine, and that of
	// processes that have nothing to do with the benchmark, 0 to 1.
	StealShare, OtherShare float64
}

// Loaded loads a subject for a window. It is an error if no request was answered.
func Loaded(ctx context.Context, s *mesh.Subject, cfg load.Config, w Window) (Figures, error) {
	runner, err := load.Start(ctx, cfg)
	if err != nil {
		return Figures{}, err
	}
	defer runner.Stop()
	f, err := watch(ctx, s, w, runner.Begin, runner.End)
	switch {
	case err != nil:
		return f, err
	case f.Result.Completed == 0:
		return f, fmt.Errorf("%s answered no request: %v", s.Name, f.Result.Errors)
	case w.Then != nil:
		return f, w.Then(ctx, runner)
	}
	return f, nil
}

// Idle watches a subject that is asked nothing.
func Idle(ctx context.Context, s *mesh.Subject, w Window) (Figures, error) {
	var began time.Time
	return watch(ctx, s, w, func() { began = time.Now() }, func() load.Result { return load.Result{Window: time.Since(began)} })
}

// watch reads everything before and after a window that begin opens and end closes.
func watch(ctx context.Context, s *mesh.Subject, w Window, begin func(), end func() load.Result) (f Figures, err error) {
	if err := pause(ctx, w.WarmUp); err != nil {
		return f, err
	}
	before, err := s.Sample(ctx, true)
	if err != nil {
		return f, err
	}
	ours, err := cpu(s, w.Busy)
	if err != nil {
		return f, err
	}
	machine, err := procstat.ReadMachine()
	if err != nil {
		return f, err
	}
	begin()
	if err := pause(ctx, w.Length); err != nil {
		return f, err
	}
	f.Result = end()
	if f.Parts, err = s.Sample(ctx, false); err != nil {
		return f, err
	}
	machineAfter, err := procstat.ReadMachine()
	if err != nil {
		return f, err
	}
	oursAfter, err := cpu(s, w.Busy)
	if err != nil {
		return f, err
	}
	for i := range f.Parts {
		f.Parts[i] = f.Parts[i].Minus(before[i])
	}
	machine = machineAfter.Minus(machine)
	if total := machine.Busy + machine.Idle + machine.Steal; total > 0 {
		f.StealShare = machine.Steal.Seconds() / total.Seconds()
		f.OtherShare = max(0, (machine.Busy-(oursAfter-ours)).Seconds()/total.Seconds())
	}
	return f, nil
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
