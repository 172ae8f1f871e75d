package decisions

import (
	"sync"
	"sync/atomic"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// kept is how many decisions are remembered, and watchBuffer how many a watcher may
// be behind.
const (
	kept        = 1000
	watchBuffer = 256
)

// Entry is one decision as a watcher gets it.
type Entry struct {
	// Summary is the decision.
	Summary *Summary
	// Full is the decision itself, for watchers that asked for candidates; nil for
	// past decisions and all other watchers.
	Full *route.Decision
	// Dropped is how many decisions were lost before this one.
	Dropped uint64
}

// Log is the newest decisions. Safe for concurrent use.
type Log struct {
	full atomic.Int32 // watchers that want candidates

	mu       sync.Mutex
	ring     [kept]*Summary
	count    int // ever added
	watchers map[*watcher]struct{}
}

type watcher struct {
	entries chan Entry
	full    bool
	dropped uint64
}

// NewLog returns an empty log.
func NewLog() *Log { return &Log{watchers: make(map[*watcher]struct{})} }

// WantsCandidates says whether anybody watches with candidates, so that the cycle
// should record who was dropped by what.
func (l *Log) WantsCandidates() bool { return l.full.Load() > 0 }

// Decided adds a decision.
func (l *Log) Decided(d *route.Decision) {
	s := Summarise(d)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring[l.count%kept] = s
	l.count++
	for w := range l.watchers {
		e := Entry{Summary: s, Dropped: w.dropped}
		if w.full {
			d.Keep()
			e.Full = stripped(d)
		}
		select {
		case w.entries <- e:
			w.dropped = 0
		default:
			w.dropped++
		}
	}
}

// stripped is the decision without what must not outlive the request.
func stripped(d *route.Decision) *route.Decision {
	c, r := *d, *d.Request
	r.Prompt, r.Headers = nil, route.NoHeaders{}
	c.Request, c.Reservation = &r, nil
	return &c
}

// Watch returns the newest past decisions, oldest first, and then new ones as they
// come. Call stop when done.
func (l *Log) Watch(past int, full bool) (entries <-chan Entry, stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	past = max(0, min(past, kept, l.count))
	w := &watcher{entries: make(chan Entry, watchBuffer+past), full: full}
	for i := l.count - past; i < l.count; i++ {
		w.entries <- Entry{Summary: l.ring[i%kept]}
	}
	l.watchers[w] = struct{}{}
	if full {
		l.full.Add(1)
	}
	return w.entries, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if _, on := l.watchers[w]; !on {
			return
		}
		delete(l.watchers, w)
		if full {
			l.full.Add(-1)
		}
	}
}
