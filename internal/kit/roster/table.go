package roster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// MaxEndpoints is the most endpoints a table may have.
const MaxEndpoints = 4096

// Table is the membership of a pool: endpoints sorted by id. It is immutable.
type Table struct {
	// Digest is XXH64 over the ids, see Digest.
	Digest uint64
	// Endpoints are ascending by ID. Not to be changed.
	Endpoints []Endpoint

	positions  map[ID]int32
	serving    map[string][]int32
	cacheBlock uint32
}

// NewTable makes a table of the endpoints, in any order. It copies the slice, sorts
// it, and fills in Address, Scheme and Role. It is an error if an id is empty or
// there twice, a host is empty or a port is 0, or there are more than MaxEndpoints.
func NewTable(endpoints []Endpoint) (*Table, error) {
	if len(endpoints) > MaxEndpoints {
		return nil, fmt.Errorf("a table of %d endpoints is above the limit of %d: split the pool", len(endpoints), MaxEndpoints)
	}
	t := &Table{Endpoints: slices.Clone(endpoints), positions: make(map[ID]int32, len(endpoints))}
	slices.SortFunc(t.Endpoints, func(a, b Endpoint) int { return cmp.Compare(a.ID, b.ID) })
	for i := range t.Endpoints {
		e := &t.Endpoints[i]
		switch {
		case e.ID == "" || strings.ContainsRune(string(e.ID), 0):
			// A zero byte frames ids in the digest.
			return nil, fmt.Errorf("endpoint %s:%d has no id, or one with a zero byte: %q", e.Host, e.Port, e.ID)
		case e.Host == "" || e.Port == 0:
			return nil, fmt.Errorf("endpoint %q has no host or no port", e.ID)
		}
		if _, twice := t.positions[e.ID]; twice {
			return nil, fmt.Errorf("endpoint id %q is there twice", e.ID)
		}
		t.positions[e.ID] = int32(i) //nolint:gosec // at most MaxEndpoints
		e.Labels = slices.Clone(e.Labels)
		e.complete()
		t.cacheBlock = max(t.cacheBlock, e.CacheBlockSize)
	}
	t.Digest = digest(t.Endpoints)
	t.serving = servingIndex(t.Endpoints)
	return t, nil
}

// CacheBlockSize returns the largest KV-cache block of the endpoints, in tokens; 0 if
// none is known.
func (t *Table) CacheBlockSize() uint32 { return t.cacheBlock }

func digest(sorted []Endpoint) uint64 {
	d := xxhash.New()
	for i := range sorted {
		_, _ = d.WriteString(string(sorted[i].ID))
		_, _ = d.Write([]byte{0})
	}
	return d.Sum64()
}

// servingIndex maps each model to the endpoints that may serve it, for the models
// that not everybody serves. Endpoints that list nothing may serve anything.
func servingIndex(endpoints []Endpoint) map[string][]int32 {
	listed := make(map[string]bool)
	for i := range endpoints {
		for _, m := range endpoints[i].Models {
			listed[m] = true
		}
	}
	index := make(map[string][]int32)
	for m := range listed {
		var at []int32
		for i := range endpoints {
			if len(endpoints[i].Models) == 0 || slices.Contains(endpoints[i].Models, m) {
				at = append(at, int32(i)) //nolint:gosec // at most MaxEndpoints
			}
		}
		if len(at) < len(endpoints) {
			index[m] = at
		}
	}
	return index
}

// Len returns the number of endpoints.
func (t *Table) Len() int { return len(t.Endpoints) }

// Position returns the position of the endpoint, and false if it is not in the table.
func (t *Table) Position(id ID) (int, bool) {
	p, ok := t.positions[id]
	return int(p), ok
}

// Serving returns the positions of the endpoints that list the model or list
// nothing, ascending. Nil means no restriction: everybody lists it, or nobody does
// and the engines shall answer for themselves. Not to be changed.
func (t *Table) Serving(model string) []int32 { return t.serving[model] }

// Equal says whether both tables have the same endpoints with the same details.
func (t *Table) Equal(o *Table) bool {
	return t.Digest == o.Digest && slices.EqualFunc(t.Endpoints, o.Endpoints, func(a, b Endpoint) bool { return a.equal(&b) })
}
