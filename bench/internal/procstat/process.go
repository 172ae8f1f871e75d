package procstat

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Process is what one process has used since it began.
type Process struct {
	// CPU is the time on a processor, of all its threads, ended ones included.
	CPU time.Duration
	// Waits counts how often a thread gave up its processor to wait for something:
	// every wake-up of a sleeping thread is one.
	Waits uint64
	// Preempted counts how often a thread was put off its processor.
	Preempted uint64
	// ResidentBytes is the memory in use now, and PeakBytes the most it ever was.
	ResidentBytes, PeakBytes uint64
}

// ReadProcess samples a process.
func ReadProcess(pid int) (Process, error) {
	p := Process{}
	var err error
	if p.CPU, err = CPU(pid); err != nil {
		return p, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return p, fmt.Errorf("read the status of process %d: %w", pid, err)
	}
	p.ResidentBytes, p.PeakBytes = 1024*field(status, "VmRSS:"), 1024*field(status, "VmHWM:")
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return p, fmt.Errorf("list the threads of process %d: %w", pid, err)
	}
	for _, t := range tasks {
		b, err := os.ReadFile(t)
		if err != nil {
			continue // the thread has ended
		}
		p.Waits += field(b, "voluntary_ctxt_switches:")
		p.Preempted += field(b, "nonvoluntary_ctxt_switches:")
	}
	return p, nil
}

// CPU returns the processor time that a process has used. The clock behind it counts
// nanoseconds, where utime and stime of /proc/PID/stat count hundredths of a second.
func CPU(pid int) (time.Duration, error) {
	var ts unix.Timespec
	clock := int32(^pid<<3 | 2) // CPUCLOCK_SCHED of a process, as clock_getcpuclockid(3) makes it
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// field returns the number after a name at the beginning of a line, 0 if it is not there.
func field(text []byte, name string) uint64 {
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok {
			continue
		}
		words := bytes.Fields(rest)
		if len(words) == 0 {
			return 0
		}
		n, _ := strconv.ParseUint(string(words[0]), 10, 64)
		return n
	}
	return 0
}

// Minus is what was used since an earlier sample. Memory is that of now.
func (p Process) Minus(before Process) Process {
	p.CPU -= before.CPU
	p.Waits -= min(before.Waits, p.Waits) // a thread that ended takes its counts along
	p.Preempted -= min(before.Preempted, p.Preempted)
	return p
}
