package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startPatience is how long a process may take to announce its listeners, and
// stopPatience how long it may take to end after SIGTERM.
const (
	startPatience = 60 * time.Second
	stopPatience  = 30 * time.Second
)

// Process is one service as a process of its own.
type Process struct {
	name   string
	binary string
	args   []string
	wants  int // listeners to be announced

	cmd    *exec.Cmd
	ended  chan struct{}
	err    error
	addrs  sync.Map // listener → address
	stderr lockedBuffer
}

// lockedBuffer collects output that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// NewProcess describes a process that announces as many listeners; Start runs it. It is killed at the end of the
// test, and what it said is logged if the test failed.
func NewProcess(t testing.TB, name, binary string, listeners int, args ...string) *Process {
	p := &Process{name: name, binary: binary, args: args, wants: listeners}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s %s wrote:\n%s", name, strings.Join(args, " "), p.stderr.String())
		}
	})
	return p
}

// Start runs the process and waits until it has announced its listeners.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	p.cmd = exec.Command(p.binary, p.args...)
	p.cmd.Stderr = &p.stderr
	p.ended = make(chan struct{})
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	up := make(chan struct{})
	go p.read(out, up)
	select {
	case <-up:
	case <-p.ended:
		t.Fatalf("%s ended at once: %v\n%s", p.name, p.err, p.stderr.String())
	case <-time.After(startPatience):
		t.Fatalf("%s has not announced %d listeners\n%s", p.name, p.wants, p.stderr.String())
	}
}

// read follows standard output for announcements until the process ends.
func (p *Process) read(out io.Reader, up chan<- struct{}) {
	seen := 0
	for s := bufio.NewScanner(out); s.Scan(); {
		before, addr, ok := strings.Cut(s.Text(), " listening on ")
		if !ok {
			continue
		}
		_, listener, _ := strings.Cut(before, ": ")
		p.addrs.Store(listener, addr)
		if seen++; seen == p.wants {
			close(up)
		}
	}
	p.err = p.cmd.Wait()
	close(p.ended)
}

// Addr returns the address that a listener was announced with.
func (p *Process) Addr(listener string) string {
	a, _ := p.addrs.Load(listener)
	s, _ := a.(string)
	return s
}

// Log returns what the process has written on standard error so far.
func (p *Process) Log() string { return p.stderr.String() }

// Stop sends SIGTERM and waits for a clean end.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Errorf("%s: %v", p.name, err)
	}
	select {
	case <-p.ended:
		if p.err != nil {
			t.Errorf("%s did not end cleanly: %v\n%s", p.name, p.err, p.stderr.String())
		}
	case <-time.After(stopPatience):
		t.Errorf("%s did not end within %s of SIGTERM", p.name, stopPatience)
		p.Kill()
	}
}

// Kill ends the process with SIGKILL, if it runs.
func (p *Process) Kill() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Restart stops the process and starts it again under the same addresses.
func (p *Process) Restart(t testing.TB) {
	t.Helper()
	p.Stop(t)
	p.Start(t)
}
