package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// world is some collectors, the truth about the endpoints, and messages on their way.
type world struct {
	t      *rapid.T
	now    time.Time
	fleets []*Fleet
	names  []string
	seen   []int        // how much of history each fleet has seen
	links  [][][]func() // messages on their way, per sender and receiver, in order
	states [][]int      // history: the endpoints that there were
	born   map[ID]int   // the state of history that the first to announce an id had seen
	skips  bool         // collectors may miss states in between
}

func (w *world) publish(from int) {
	v, table, _ := w.fleets[from].Refresh(w.now)
	if v == nil {
		return
	}
	for _, id := range ids(v) {
		if _, ok := w.born[id]; !ok {
			w.born[id] = w.seen[from]
		}
	}
	if !table {
		return
	}
	es, changed := entries(v), v.Changed
	for to := range w.fleets {
		if to == from {
			continue
		}
		w.links[from][to] = append(w.links[from][to], func() {
			w.fleets[to].HeardFrom(w.now, w.names[from])
			w.fleets[to].HeardTable(w.now, w.names[from], changed, es)
		})
	}
}

func (w *world) deliver(from, to int) bool {
	queue := w.links[from][to]
	if len(queue) == 0 {
		return false
	}
	w.links[from][to] = queue[1:]
	queue[0]()
	w.publish(to)
	return true
}

func (w *world) look(who, state int) {
	w.seen[who] = state
	w.fleets[who].Discovered(w.now, targets(w.states[state]...))
	w.publish(who)
}

// TestCollectorsAgree lets collectors see the same history at different times, with
// messages delayed, and wants all of them to end with the same table, each endpoint
// scraped by exactly one, and, if nobody has missed a state, no id shared by two lives.
func TestCollectorsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 3).Draw(t, "collectors")
		w := &world{t: t, now: time.Unix(1000, 0), states: [][]int{{1, 2}}, born: make(map[ID]int), seen: make([]int, n), skips: rapid.Bool().Draw(t, "skips")}
		for i := range n {
			w.names = append(w.names, fmt.Sprintf("collector-%c", 'a'+i))
			w.fleets = append(w.fleets, newFleet(w.names[i]))
			w.links = append(w.links, make([][]func(), n))
			w.fleets[i].Joined()
		}
		for i := range n {
			w.look(i, 0)
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			w.now = w.now.Add(10 * time.Millisecond)
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0: // the truth changes
				w.states = append(w.states, rapid.SampledFrom([][]int{{1, 2}, {2}, {1}, {}, {1, 2, 3}}).Draw(t, "state"))
			case 1: // a collector catches up, perhaps missing states in between
				who := rapid.IntRange(0, n-1).Draw(t, "who")
				next := min(w.seen[who]+1, len(w.states)-1)
				if w.skips {
					next = rapid.IntRange(w.seen[who], len(w.states)-1).Draw(t, "state")
				}
				w.look(who, next)
			case 2:
				w.deliver(rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to"))
			case 3:
				who := rapid.IntRange(0, n-1).Draw(t, "who")
				f := w.fleets[who]
				if v, _, _ := f.Refresh(w.now); v != nil && len(v.Owned) > 0 {
					f.Learned(v.Members[v.Owned[0]].ID, Details{Engine: "vllm", BlockSize: rapid.Uint32Range(1, 4).Draw(t, "size")})
					w.publish(who)
				}
			}
		}
		for i := range n {
			for !w.skips && w.seen[i] < len(w.states)-1 {
				w.look(i, w.seen[i]+1)
			}
			w.look(i, len(w.states)-1)
		}
		for rounds := 0; ; rounds++ {
			if rounds > 1000 {
				t.Fatal("tables are exchanged for ever")
			}
			moved := false
			for from := range n {
				for to := range n {
					moved = w.deliver(from, to) || moved
				}
			}
			if !moved {
				break
			}
		}
		w.check()
	})
}

func (w *world) check() {
	var all []ID
	var first *View
	for i, f := range w.fleets {
		v, table, _ := f.Refresh(w.now)
		if table {
			w.t.Fatalf("%s has more to say", w.names[i])
		}
		if first == nil {
			first = v
		}
		if d := cmp.Diff(entries(first), entries(v)); d != "" {
			w.t.Fatalf("%s and %s announce different tables:\n%s", w.names[0], w.names[i], d)
		}
		all = append(all, owned(v)...)
	}
	slices.Sort(all)
	if want := ids(first); !slices.Equal(all, want) {
		w.t.Fatalf("scraped are %v, members are %v", all, want)
	}
	if w.skips {
		return
	}
	for _, id := range ids(first) {
		for at := w.born[id] + 1; at < len(w.states); at++ {
			if !slices.Contains(w.states[at], endpointOf(id)) {
				w.t.Fatalf("%s was named at state %d, was gone at state %d and is back under the same id", id, w.born[id], at)
			}
		}
	}
}

func endpointOf(id ID) (n int) {
	if _, err := fmt.Sscanf(string(id), "10.0.0.%d:", &n); err != nil {
		panic(err)
	}
	return n
}
