package mesh

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pointsman/pointsman/bench/internal/procstat"
)

const (
	startPatience = 30 * time.Second
	stopPatience  = 15 * time.Second
)

// Process is one running process.
type Process struct {
	// Name says which it is; Counted whether its CPU is part of a pick's.
	Name    string
	Counted bool

	cmd    *exec.Cmd
	addrs  map[string]string // listener → address
	ended  chan struct{}
	stderr tail
}

// tail keeps the end of what a process says.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.b.Len() > 1<<16 {
		t.b.Reset()
	}
	return t.b.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// Command is how a process is started.
type Command struct {
	// Name and Counted are those of the Process.
	Name    string
	Counted bool
	// Path and Args are the command line.
	Path string
	Args []string
	// Env is added to this process's environment.
	Env []string
	// Listeners must have been announced before it is said to be up.
	Listeners []string
}

// Start starts a process and waits until it has announced its listeners.
func Start(c Command) (*Process, error) {
	p := &Process{Name: c.Name, Counted: c.Counted, addrs: make(map[string]string), ended: make(chan struct{})}
	p.cmd = exec.Command(c.Path, c.Args...) //nolint:gosec // the operator says which binaries
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // nothing is left running
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	up := make(chan struct{})
	go p.follow(out, c.Listeners, up)
	select {
	case <-up:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("%s ended at once: %s", c.Name, p.stderr.String())
	case <-time.After(startPatience):
		_ = p.Stop()
		return nil, fmt.Errorf("%s has not announced %v within %v: %s", c.Name, c.Listeners, startPatience, p.stderr.String())
	}
}

// follow reads announcements, "<service>: <listener> listening on <address>".
func (p *Process) follow(out io.Reader, wanted []string, up chan<- struct{}) {
	missing := make(map[string]bool)
	for _, l := range wanted {
		missing[l] = true
	}
	if len(missing) == 0 {
		close(up)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, address, ok := strings.Cut(lines.Text(), " listening on ")
		if !ok {
			continue
		}
		_, listener, _ := strings.Cut(before, ": ")
		if missing[listener] {
			p.addrs[listener] = address
			if delete(missing, listener); len(missing) == 0 {
				close(up)
			}
		}
	}
	_ = p.cmd.Wait()
	close(p.ended)
}

// Address returns where a listener that Start waited for listens.
func (p *Process) Address(listener string) string { return p.addrs[listener] }

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Sample reads what it has used so far.
func (p *Process) Sample() (procstat.Process, error) { return procstat.ReadProcess(p.PID()) }

// Stop ends the process: kindly first.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopPatience):
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
	return fmt.Errorf("%s did not end within %v and was killed", p.Name, stopPatience)
}
