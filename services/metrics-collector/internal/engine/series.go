package engine

import (
	"hash/maphash"

	"github.com/pointsman/pointsman/services/metrics-collector/internal/page"
)

// maxSeries is the most series of one family that are taken from a page. More make
// the figure unknown: no engine has so many ranks, and telling series apart costs
// more the more there are.
const maxSeries = 1024

// series is one line of a family.
type series struct {
	identity  uint64 // of all labels
	engine    uint64 // of the labels that tell engines apart
	value     float64
	timestamp float64
}

// column collects the series of one slot.
type column struct {
	series []series
	broken bool
}

func (c *column) reset() { c.series, c.broken = c.series[:0], false }

// add takes a series. Of one that is there already the newest counts.
func (c *column) add(s series) {
	if c.broken {
		return
	}
	for i := range c.series {
		if old := &c.series[i]; old.identity == s.identity {
			if s.timestamp > old.timestamp {
				*old = s
			}
			return
		}
	}
	if len(c.series) == maxSeries {
		c.broken = true
		return
	}
	c.series = append(c.series, s)
}

// known says whether the slot has a value.
func (c *column) known() bool { return len(c.series) > 0 && !c.broken }

// fold calls f with the value of each engine: the highest of its ranks.
func (c *column) fold(f func(value float64)) {
	for i, s := range c.series {
		value, first := s.value, true
		for j, o := range c.series {
			if o.engine != s.engine {
				continue
			}
			if j < i {
				first = false
				break
			}
			value = max(value, o.value)
		}
		if first {
			f(value)
		}
	}
}

// sum adds the engines up.
func (c *column) sum() (total float64) {
	c.fold(func(v float64) { total += v })
	return total
}

// mean averages the engines. The column must be known.
func (c *column) mean() float64 {
	total, n := 0.0, 0
	c.fold(func(v float64) { total += v; n++ })
	return total / float64(n)
}

// most returns the highest value.
func (c *column) most() (most float64) {
	for _, s := range c.series {
		most = max(most, s.value)
	}
	return most
}

// identify hashes the labels, whatever their order: all of them, and those that tell
// engines apart. skip names labels that do neither.
func identify(seed maphash.Seed, labels []page.Label, skip func(name []byte) bool) (identity, engine uint64) {
	for i := range labels {
		name, value := labels[i].Name, labels[i].Value
		if skip != nil && skip(name) {
			continue
		}
		h := mix(maphash.Bytes(seed, name), maphash.Bytes(seed, value))
		identity += h
		if !withinEngine(name) {
			engine += h
		}
	}
	return identity, engine
}

// withinEngine names the labels of ranks that work on the same requests.
func withinEngine(name []byte) bool {
	switch string(name) {
	case "tp_rank", "pp_rank", "moe_ep_rank":
		return true
	}
	return false
}

// mix makes one hash of a name's and a value's, so that swapping them differs.
func mix(a, b uint64) uint64 {
	h := (a ^ (b<<32 | b>>32)) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}
