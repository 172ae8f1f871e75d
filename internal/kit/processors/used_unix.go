//go:build unix

package processors

import (
	"syscall"
	"time"
)

// used returns the processor time of this process; false if the system does not tell.
func used() (time.Duration, bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
