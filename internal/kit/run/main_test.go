package run_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/run"
)

// behaviours are what the process under test does. Main owns the process (signals, stderr, arguments), so the test
// runs its own binary again, which finds the behaviour's name in the environment.
func behaviours() map[string]func(ctx context.Context, args []string, stdout io.Writer) error {
	return map[string]func(ctx context.Context, args []string, stdout io.Writer) error{
		"ok":     func(context.Context, []string, io.Writer) error { return nil },
		"help":   func(context.Context, []string, io.Writer) error { return flag.ErrHelp },
		"failed": func(context.Context, []string, io.Writer) error { return errors.New("pool: empty") },
		"usage": func(context.Context, []string, io.Writer) error {
			return run.UsageError{Err: errors.New("--pol: no such flag")}
		},
		"usage pointer": func(context.Context, []string, io.Writer) error {
			return fmt.Errorf("parse: %w", &run.UsageError{Err: errors.New("x")})
		},
		"faults": func(context.Context, []string, io.Writer) error {
			return errors.Join(errors.New("a: wrong"), errors.New("b: wrong"))
		},
		"a library that quotes": func(context.Context, []string, io.Writer) error {
			log.SetFlags(0)
			log.Printf("Unsolicited response starting with %q; err=%v", "the answer", nil)
			log.Print("plain")
			return nil
		},
		"canceled without a signal": func(context.Context, []string, io.Writer) error { return context.Canceled },
		"wait": func(ctx context.Context, _ []string, stdout io.Writer) error {
			fmt.Fprintln(stdout, "waiting")
			<-ctx.Done()
			return fmt.Errorf("serve: %w", ctx.Err())
		},
		"wait, then fail": func(ctx context.Context, _ []string, stdout io.Writer) error {
			fmt.Fprintln(stdout, "waiting")
			<-ctx.Done()
			return errors.Join(ctx.Err(), errors.New("flush: disk full"))
		},
		"deaf": func(ctx context.Context, _ []string, stdout io.Writer) error {
			fmt.Fprintln(stdout, "waiting")
			<-ctx.Done()
			fmt.Fprintln(stdout, "heard")
			select {}
		},
	}
}

func TestMain(m *testing.M) {
	if f, ok := behaviours()[os.Getenv("RUN_TEST_BEHAVIOUR")]; ok {
		os.Exit(run.Main("router", f))
	}
	goleak.VerifyTestMain(m)
}

// process starts the behaviour.
func process(t *testing.T, behaviour string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "RUN_TEST_BEHAVIOUR="+behaviour)
	stderr = new(bytes.Buffer)
	cmd.Stderr = stderr
	return cmd, stderr
}

func TestMainExits(t *testing.T) {
	tests := []struct {
		behaviour string
		code      int
		stderr    string
	}{
		{"ok", 0, ""},
		{"help", 0, ""},
		{"failed", 1, "router: pool: empty\n"},
		{"usage", 2, "router: --pol: no such flag\n"},
		{"usage pointer", 2, "router: parse: x\n"},
		{"faults", 1, "router: a: wrong\nrouter: b: wrong\n"},
		{"a library that quotes", 0, "Unsolicited response starting with …\nplain\n"},
		{"canceled without a signal", 1, "router: context canceled\n"},
	}
	for _, tt := range tests {
		t.Run(tt.behaviour, func(t *testing.T) {
			cmd, stderr := process(t, tt.behaviour)
			err := cmd.Run()
			if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != tt.code {
				t.Errorf("exit code = %d, want %d", got, tt.code)
			}
			if stderr.String() != tt.stderr {
				t.Errorf("stderr = %q, want %q", stderr.String(), tt.stderr)
			}
		})
	}
}

func TestMainSignals(t *testing.T) {
	tests := []struct {
		name      string
		behaviour string
		signals   int // how many SIGTERMs, each sent when the process has printed a line
		code      int // -1: killed by the signal
		stderr    string
	}{
		{"a clean stop", "wait", 1, 0, ""},
		{"a stop that fails", "wait, then fail", 1, 1, "router: context canceled\nrouter: flush: disk full\n"},
		{"the second signal is final", "deaf", 2, -1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd, stderr := process(t, tt.behaviour)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for range tt.signals {
				var line string
				if _, err := fmt.Fscanln(stdout, &line); err != nil {
					t.Fatal(err)
				}
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			_, _ = io.Copy(io.Discard, stdout)
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != tt.code {
				t.Errorf("exit code = %d, want %d", got, tt.code)
			}
			if stderr.String() != tt.stderr {
				t.Errorf("stderr = %q, want %q", stderr.String(), tt.stderr)
			}
		})
	}
}
