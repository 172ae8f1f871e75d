package procstat

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/stat: USER_HZ, which is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// Machine is what all processors together have spent since the system began.
type Machine struct {
	// Busy is time spent on anything, Steal what the hypervisor gave to others, and
	// Idle the rest.
	Busy, Steal, Idle time.Duration
}

// ReadMachine samples the machine.
func ReadMachine() (Machine, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Machine{}, fmt.Errorf("read the machine's CPU times: %w", err)
	}
	return parseMachine(string(b))
}

func parseMachine(text string) (Machine, error) {
	line, _, _ := strings.Cut(text, "\n")
	words := strings.Fields(line)
	if len(words) < 9 || words[0] != "cpu" {
		return Machine{}, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var m Machine
	for i, w := range words[1:9] { // guest times are within user and nice
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			return Machine{}, fmt.Errorf("/proc/stat: %w", err)
		}
		d := time.Duration(n) * tick
		switch i {
		case 3, 4: // idle, iowait
			m.Idle += d
		case 7:
			m.Steal += d
		default:
			m.Busy += d
		}
	}
	return m, nil
}

// Minus is what was spent since an earlier sample.
func (m Machine) Minus(before Machine) Machine {
	return Machine{m.Busy - before.Busy, m.Steal - before.Steal, m.Idle - before.Idle}
}

// Description says on what machine figures were taken.
type Description struct {
	Processor string `json:"processor"`
	CPUs      int    `json:"cpus"`
	MemoryMiB uint64 `json:"memory_mib"`
	Kernel    string `json:"kernel"`
	Go        string `json:"go"`
}

// Describe describes this machine, as far as it tells.
func Describe() Description {
	d := Description{Processor: "unknown", CPUs: runtime.NumCPU(), Kernel: "unknown", Go: runtime.Version()}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				d.Processor = strings.TrimSpace(value)
				break
			}
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		d.Kernel = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		d.MemoryMiB = field(b, "MemTotal:") / 1024
	}
	return d
}
