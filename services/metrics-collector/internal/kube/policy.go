package kube

import (
	"cmp"
	"slices"
	"time"

	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

// maxObjects is how many of a kind are told.
const maxObjects = 1000

// policy puts together what the objects say of a pool's requests, oldest first: of two
// that say something of the same name the older counts.
func (c *Cluster) policy(key Key) *fleet.Policy {
	p := &fleet.Policy{Changed: time.Now()}
	for _, o := range ofPool(c.objectives, key) {
		p.Objectives = append(p.Objectives, fleet.Objective{Name: o.name, Priority: o.priority})
	}
	for _, r := range ofPool(c.rewrites, key) {
		p.Rewrites = append(p.Rewrites, fleet.Rewrite{Name: r.name, Rules: r.rules})
	}
	seen := make(map[string]bool)
	for _, m := range ofPool(c.models, key) {
		if !seen[m.served.Model] {
			seen[m.served.Model] = true
			p.Models = append(p.Models, m.served)
		}
	}
	return p
}

// ofPool returns the objects that refer to a pool, oldest first.
func ofPool[T interface{ head() *header }](s *source[T], key Key) []T {
	var out []T
	s.each(func(o T) {
		if o.head().pool == key {
			out = append(out, o)
		}
	})
	slices.SortFunc(out, func(a, b T) int {
		return cmp.Or(a.head().created.Compare(b.head().created), cmp.Compare(a.head().name, b.head().name))
	})
	return out[:min(len(out), maxObjects)]
}
