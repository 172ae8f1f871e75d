package page

import (
	"slices"
	"strings"
)

// AdapterLog remembers which sets of running and waiting adapters were seen and when last. vLLM leaves every set that
// ever was on its page, and the value, a time, tells the current one; so do we, up to a limit. The zero value is empty.
type AdapterLog struct {
	seen []adapterSet // in order of first appearance
}

type adapterSet struct {
	running, waiting string // names, comma-separated
	unix             float64
}

const mostAdapterSets = 64

// Record notes the sets in force at a time, in Unix seconds.
func (l *AdapterLog) Record(running, waiting []string, unix float64) {
	now := adapterSet{strings.Join(running, ","), strings.Join(waiting, ","), unix}
	for i := range l.seen {
		if l.seen[i].running == now.running && l.seen[i].waiting == now.waiting {
			l.seen[i].unix = unix
			return
		}
	}
	if len(l.seen) == mostAdapterSets {
		oldest := 0
		for i := range l.seen {
			if l.seen[i].unix < l.seen[oldest].unix {
				oldest = i
			}
		}
		l.seen = slices.Delete(l.seen, oldest, oldest+1)
	}
	l.seen = append(l.seen, now)
}
