package engine

import (
	"maps"
	"slices"
)

// adapterSlots counts which LoRA adapters are in use and which are in GPU memory. The empty name, the base model, needs
// no slot.
type adapterSlots struct {
	max      int
	running  map[string]int // requests in the batch by adapter
	waiting  map[string]int // requests in the queue by adapter
	resident []string       // in GPU memory, the longest unused first
}

func newAdapterSlots(n int) adapterSlots {
	return adapterSlots{max: n, running: make(map[string]int), waiting: make(map[string]int)}
}

// fits says whether a request of the adapter may join the batch.
func (a *adapterSlots) fits(name string) bool {
	return name == "" || a.running[name] > 0 || len(a.running) < a.max
}

// start counts a request into the batch and says whether its adapter has to be loaded for it.
func (a *adapterSlots) start(name string) (load bool) {
	if name == "" {
		return false
	}
	a.running[name]++
	at := slices.Index(a.resident, name)
	if at >= 0 {
		a.resident = slices.Delete(a.resident, at, at+1)
	} else if load = true; len(a.resident) == a.max {
		idle := slices.IndexFunc(a.resident, func(r string) bool { return a.running[r] == 0 })
		a.resident = slices.Delete(a.resident, idle, idle+1)
	}
	a.resident = append(a.resident, name)
	return load
}

// stop counts a request out of the batch.
func (a *adapterSlots) stop(name string) { count(a.running, name, -1) }

// queued counts a request into or out of the queue.
func (a *adapterSlots) queued(name string, by int) { count(a.waiting, name, by) }

func count(m map[string]int, name string, by int) {
	if name == "" {
		return
	}
	if m[name] += by; m[name] == 0 {
		delete(m, name)
	}
}

func sortedNames(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }
