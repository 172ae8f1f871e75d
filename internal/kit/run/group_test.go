package run_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/run"
)

// journal notes what parts do, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) read() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.lines...)
}

// part serves until it is stopped and then returns err.
func (j *journal) part(name string, err error) run.Part {
	return func(ctx context.Context, ready func()) error {
		j.note("start %s", name)
		ready()
		ready() // a second call does nothing
		<-ctx.Done()
		j.note("stop %s", name)
		return err
	}
}

func TestGroupStartsInOrderAndStopsInReverse(t *testing.T) {
	var j journal
	ctx, cancel := context.WithCancel(t.Context())
	g := run.NewGroup(nil)
	g.Add("a", j.part("a", nil))
	g.Add("b", j.part("b", context.Canceled))
	g.Add("c", j.part("c", fmt.Errorf("read: %w", context.Canceled)))
	g.OnReady = func() {
		j.note("ready")
		cancel()
	}
	if err := g.Run(ctx); err != nil {
		t.Fatalf("Run = %v, want nil: a context's error is a clean stop", err)
	}
	want := []string{"start a", "start b", "start c", "ready", "stop c", "stop b", "stop a"}
	if d := cmp.Diff(want, j.read()); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

func TestGroupWaitsForReady(t *testing.T) {
	var j journal
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := run.NewGroup(nil)
	g.Add("slow", func(ctx context.Context, ready func()) error {
		j.note("start slow")
		<-release
		j.note("slow is ready")
		ready()
		<-ctx.Done()
		return ctx.Err()
	})
	g.Add("next", j.part("next", nil))
	g.OnReady = cancel
	time.AfterFunc(20*time.Millisecond, func() { close(release) })
	if err := g.Run(ctx); err != nil {
		t.Fatal(err)
	}
	want := []string{"start slow", "slow is ready", "start next", "stop next"}
	if d := cmp.Diff(want, j.read()); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

func TestGroupEndsWith(t *testing.T) {
	broken := errors.New("broken")
	after := func(err error) run.Part {
		return func(_ context.Context, ready func()) error {
			ready()
			return err
		}
	}
	tests := []struct {
		name  string
		parts []run.Part // p0, p1, …
		want  string
		order []string
	}{
		{
			name:  "a part that fails before it is ready: later ones are not started",
			parts: []run.Part{nil, func(context.Context, func()) error { return broken }, nil},
			want:  "broken",
			order: []string{"start p0", "stop p0"},
		},
		{
			name:  "a part that fails after it was ready",
			parts: []run.Part{nil, after(broken)},
			want:  "broken",
			order: []string{"start p0", "stop p0"},
		},
		{
			name:  "a part that returns nil although it was not stopped",
			parts: []run.Part{nil, after(nil)},
			want:  "p1 ended by itself",
			order: []string{"start p0", "stop p0"},
		},
		{
			name:  "a part that claims to be cancelled",
			parts: []run.Part{after(context.Canceled)},
			want:  "p0 ended by itself: context canceled",
		},
		{
			name:  "a part that panics",
			parts: []run.Part{nil, func(context.Context, func()) error { panic("no such key") }},
			want:  "p1 panicked: a value of type string; the stack is in the log",
			order: []string{"start p0", "stop p0"},
		},
		{
			name: "one fails, and another fails to stop",
			parts: []run.Part{
				func(ctx context.Context, ready func()) error {
					ready()
					<-ctx.Done()
					return errors.New("flush: disk full")
				},
				after(broken),
			},
			want: "broken\nflush: disk full",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var j journal
			var log bytes.Buffer
			g := run.NewGroup(slog.New(slog.NewTextHandler(&log, nil)))
			for i, p := range tt.parts {
				name := fmt.Sprintf("p%d", i)
				if p == nil {
					p = j.part(name, nil)
				}
				g.Add(name, p)
			}
			err := g.Run(t.Context())
			if err == nil || err.Error() != tt.want {
				t.Errorf("Run = %v, want %s", err, tt.want)
			}
			if d := cmp.Diff(tt.order, j.read()); d != "" {
				t.Errorf("order (-want +got):\n%s", d)
			}
			if panicked := strings.Contains(tt.want, "panicked"); panicked != strings.Contains(log.String(), "group_test.go") {
				t.Errorf("log = %q: want the stack there exactly for a panic", log.String())
			}
		})
	}
}

func TestGroupDoesNotWaitForEver(t *testing.T) {
	var j journal
	release := make(chan struct{})
	gone := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	g := run.NewGroup(nil)
	g.StopTimeout = time.Second // the other one is in time on a busy machine too
	g.OnReady = cancel
	g.Add("a", j.part("a", nil))
	g.Add("deaf", func(_ context.Context, ready func()) error {
		defer close(gone)
		ready()
		<-release
		return nil
	})
	err := g.Run(ctx)
	if want := "deaf did not stop within 1s"; err == nil || err.Error() != want {
		t.Errorf("Run = %v, want %s", err, want)
	}
	if d := cmp.Diff([]string{"start a", "stop a"}, j.read()); d != "" {
		t.Errorf("the others must be stopped all the same (-want +got):\n%s", d)
	}
	close(release)
	<-gone
}

func TestGroupStoppedWhileStarting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := run.NewGroup(nil)
	g.OnReady = func() { t.Error("OnReady was called, but the first part never was ready") }
	g.Add("waiting", func(ctx context.Context, _ func()) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	g.Add("next", func(context.Context, func()) error {
		t.Error("the second part was started")
		return nil
	})
	if err := g.Run(ctx); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

func TestAnnounce(t *testing.T) {
	var out bytes.Buffer
	var got []string
	ctx := run.WithAnnounce(t.Context(), func(service, listener, addr string) {
		got = append(got, service, listener, addr)
	})
	g := run.NewGroup(nil)
	stop, cancel := context.WithCancel(ctx)
	g.OnReady = cancel
	g.Add("server", func(ctx context.Context, ready func()) error {
		run.Announce(ctx, &out, "router", "http", "127.0.0.1:8080")
		return run.Idle(ctx, ready)
	})
	if err := g.Run(stop); err != nil {
		t.Fatal(err)
	}
	if want := "router: http listening on 127.0.0.1:8080\n"; out.String() != want {
		t.Errorf("stdout = %q, want %q", out.String(), want)
	}
	if d := cmp.Diff([]string{"router", "http", "127.0.0.1:8080"}, got); d != "" {
		t.Errorf("callback (-want +got):\n%s", d)
	}
	run.Announce(t.Context(), nil, "router", "http", "127.0.0.1:8080") // neither stdout nor callback: nothing to do
}
