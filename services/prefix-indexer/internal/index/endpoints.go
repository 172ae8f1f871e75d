package index

import (
	"math/bits"
	"slices"
)

// Unknown is the ordinal of an endpoint that the index does not know.
const Unknown int32 = -1

// Endpoints says which endpoints an index knows and by which ordinals. It is
// immutable; an ordinal is given again once its endpoint has left.
type Endpoints struct {
	ordinals map[string]int32
}

// Ordinal returns the ordinal of the endpoint, or Unknown.
func (e *Endpoints) Ordinal(id string) int32 {
	if o, ok := e.ordinals[id]; ok {
		return o
	}
	return Unknown
}

// Len returns the number of endpoints.
func (e *Endpoints) Len() int { return len(e.ordinals) }

// without returns the endpoints less those that are not in ids, and the ordinals of
// the ones that left.
func (e *Endpoints) without(ids []string) (rest *Endpoints, left []int32) {
	stay := make(map[string]bool, len(ids))
	for _, id := range ids {
		stay[id] = true
	}
	rest = &Endpoints{make(map[string]int32, len(ids))}
	for id, o := range e.ordinals {
		if stay[id] {
			rest.ordinals[id] = o
		} else {
			left = append(left, o)
		}
	}
	slices.Sort(left)
	return rest, left
}

// with returns the endpoints and those of ids that are new, as far as there are
// ordinals. The lowest are given first, which keeps bitmaps short.
func (e *Endpoints) with(ids []string) *Endpoints {
	var used [MaxEndpoints / 64]uint64
	more := &Endpoints{make(map[string]int32, len(ids))}
	for id, o := range e.ordinals {
		used[o>>6] |= 1 << (o & 63)
		more.ordinals[id] = o
	}
	word := 0
	for _, id := range ids {
		if _, there := more.ordinals[id]; there {
			continue
		}
		for word < len(used) && used[word] == ^uint64(0) {
			word++
		}
		if word == len(used) {
			break
		}
		bit := bits.TrailingZeros64(^used[word])
		used[word] |= 1 << bit
		more.ordinals[id] = int32(word<<6 + bit)
	}
	return more
}
