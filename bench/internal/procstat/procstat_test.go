package procstat

import (
	"os"
	"testing"
	"time"
)

// A process that works is seen working, to about a millisecond.
func TestCPUOfThisProcess(t *testing.T) {
	before, err := ReadProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for began := time.Now(); time.Since(began) < 30*time.Millisecond; {
		n++
	}
	after, err := ReadProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	d := after.Minus(before)
	if d.CPU <= 0 || d.ResidentBytes == 0 || d.PeakBytes < d.ResidentBytes {
		t.Errorf("after %d turns: %+v", n, d)
	}
}

func TestNoSuchProcess(t *testing.T) {
	if _, err := ReadProcess(1 << 22); err == nil {
		t.Error("a process that cannot be was read")
	}
}

func TestMachine(t *testing.T) {
	got, err := parseMachine("cpu  100 1 20 4000 7 3 2 9 0 0\ncpu0 1 2 3\n")
	want := Machine{Busy: 1260 * time.Millisecond, Steal: 90 * time.Millisecond, Idle: 40070 * time.Millisecond}
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "cpu 1 2", "cpu a b c d e f g h i"} {
		if _, err := parseMachine(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	if m, err := ReadMachine(); err != nil || m.Idle+m.Busy == 0 {
		t.Errorf("this machine: %+v, %v", m, err)
	}
	if d := Describe(); d.CPUs == 0 || d.Go == "" {
		t.Errorf("this machine: %+v", d)
	}
}
