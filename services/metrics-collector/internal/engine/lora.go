package engine

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/pointsman/pointsman/services/metrics-collector/internal/page"
)

// maxAdapters is the most adapters that are taken from a page.
const maxAdapters = 1024

// Labels of the family that tells of adapters. Its value is the time of writing.
const (
	runningLabel = "running_lora_adapters"
	waitingLabel = "waiting_lora_adapters"
	maxLabel     = "max_lora"
)

func adapterLabel(name []byte) bool {
	switch string(name) {
	case runningLabel, waitingLabel, maxLabel:
		return true
	}
	return false
}

// loraSeries is the newest adapter series of one engine. Its bytes are copies.
type loraSeries struct {
	engine                uint64
	written               float64
	running, waiting, max []byte
}

// lora collects adapter series and remembers what the last page came to, so that a
// page which says the same costs nothing.
type lora struct {
	seen   []loraSeries
	broken bool
	key    []byte // of what adapters was made of
	spare  []byte
	result *Adapters
}

func (l *lora) reset() { l.seen, l.broken = l.seen[:0], false }

// add takes a series unless it tells nothing or a newer one of its engine is there.
func (l *lora) add(engine uint64, s *page.Sample) {
	if l.broken {
		return
	}
	inUse, ok1 := s.Get(runningLabel)
	queued, ok2 := s.Get(waitingLabel)
	if !ok1 && !ok2 || s.Value != s.Value {
		return
	}
	most, _ := s.Get(maxLabel)
	i := slices.IndexFunc(l.seen, func(o loraSeries) bool { return o.engine == engine })
	switch {
	case i >= 0 && s.Value <= l.seen[i].written:
		return
	case i < 0 && len(l.seen) == maxSeries:
		l.broken = true
		return
	case i < 0:
		l.seen = slices.Grow(l.seen, 1)[:len(l.seen)+1] // a used entry keeps its memory
		i = len(l.seen) - 1
	}
	o := &l.seen[i]
	o.engine, o.written = engine, s.Value
	o.running = append(o.running[:0], inUse...)
	o.waiting = append(o.waiting[:0], queued...)
	o.max = append(o.max[:0], most...)
}

// adapters returns what the page says, nil if it says nothing.
func (l *lora) adapters() *Adapters {
	if len(l.seen) == 0 || l.broken {
		return nil
	}
	key := l.spare[:0]
	for i := range l.seen {
		for _, part := range [][]byte{l.seen[i].running, l.seen[i].waiting, l.seen[i].max} {
			key = binary.AppendUvarint(key, uint64(len(part)))
			key = append(key, part...)
		}
	}
	if l.result != nil && bytes.Equal(key, l.key) {
		l.spare = key
		return l.result
	}
	l.key, l.spare = key, l.key
	l.result = l.build()
	return l.result
}

func (l *lora) build() *Adapters {
	a := &Adapters{}
	for i := range l.seen {
		a.Running = appendNames(a.Running, l.seen[i].running)
		a.Waiting = appendNames(a.Waiting, l.seen[i].waiting)
		if n, err := strconv.ParseUint(strings.TrimSpace(string(l.seen[i].max)), 10, 16); err == nil {
			a.Max += uint32(n) // an engine each: together they hold the sum
		}
	}
	a.Running = distinct(a.Running)
	a.Waiting = slices.DeleteFunc(distinct(a.Waiting), func(n string) bool {
		_, there := slices.BinarySearch(a.Running, n)
		return there
	})
	if len(a.Waiting) == 0 {
		a.Waiting = nil
	}
	return a
}

func appendNames(names []string, list []byte) []string {
	for name := range bytes.SplitSeq(list, []byte{','}) {
		if name = bytes.TrimSpace(name); usable(name) && len(names) < maxAdapters {
			names = append(names, string(name))
		}
	}
	return names
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
