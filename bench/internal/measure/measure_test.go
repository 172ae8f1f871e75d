package measure

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/bench/internal/load"
	"github.com/pointsman/pointsman/bench/internal/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// self is this process as a subject.
func self() *mesh.Subject {
	return &mesh.Subject{Name: "test", Parts: []mesh.Part{{Name: "test", PID: os.Getpid()}}}
}

// work uses a processor for a while.
func work(context.Context, int) (func() error, error) {
	for began := time.Now(); time.Since(began) < time.Millisecond; {
	}
	return nil, nil
}

// What follows a window is done while the load is still on.
func TestLoaded(t *testing.T) {
	again := 0
	f, err := Loaded(context.Background(), self(), load.Config{Exchange: work, Concurrency: 1}, Window{
		WarmUp: time.Millisecond, Length: 300 * time.Millisecond,
		Then: func(_ context.Context, r *load.Runner) error {
			for again == 0 {
				r.Begin()
				time.Sleep(10 * time.Millisecond)
				again = r.End().Completed
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if f.Result.Completed == 0 || f.Result.Window < 300*time.Millisecond || again == 0 {
		t.Errorf("%d requests in %v, %d afterwards", f.Result.Completed, f.Result.Window, again)
	}
	if len(f.Parts) != 1 || f.Parts[0].Usage.CPU <= 0 || f.Parts[0].Usage.ResidentBytes == 0 {
		t.Errorf("%+v", f.Parts)
	}
}

func TestLoadedFails(t *testing.T) {
	broken := errors.New("no destination")
	w := Window{WarmUp: time.Millisecond, Length: 300 * time.Millisecond}
	_, err := Loaded(context.Background(), self(), load.Config{Exchange: func(context.Context, int) (func() error, error) {
		time.Sleep(time.Millisecond)
		return nil, broken
	}}, w)
	if err == nil || !strings.Contains(err.Error(), "no destination") {
		t.Errorf("no right answer: %v", err)
	}
	w.Then = func(context.Context, *load.Runner) error { return broken }
	if _, err := Loaded(context.Background(), self(), load.Config{Exchange: work, Concurrency: 1}, w); !errors.Is(err, broken) {
		t.Errorf("what followed failed: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Idle(ctx, self(), w); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
	gone := self()
	gone.Parts[0].PID = 1 << 30
	if _, err := Idle(context.Background(), gone, w); err == nil || !strings.Contains(err.Error(), "test of test") {
		t.Errorf("no such process: %v", err)
	}
}

func TestIdle(t *testing.T) {
	f, err := Idle(context.Background(), self(), Window{WarmUp: time.Millisecond, Length: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if f.Result.Completed != 0 || f.Result.Window < 20*time.Millisecond || len(f.Parts) != 1 {
		t.Errorf("%+v", f)
	}
}
