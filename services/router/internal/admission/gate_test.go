package admission

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

type headers map[string]string

func (h headers) Get(name string) string { return h[name] }

// says is a detector that says what it is told to, and counts how often it is asked.
type says struct {
	value float64
	asked int
}

func (*says) Name() string { return "says" }

func (s *says) Saturation(*route.Cycle, []int32) (float64, bool) {
	s.asked++
	return s.value, s.value >= 1
}

func TestWhoIsShed(t *testing.T) {
	lists := &Policy{
		Models:         []Model{{Name: "food-review", Critical: true}, {Name: "food-review-resolve"}, {Name: "food-review-sheddable"}},
		CriticalModels: []string{"chat"},
	}
	for _, c := range []struct {
		id        string
		policy    *Policy
		request   route.Request
		full      float64
		sheddable bool
		shed      bool
	}{
		{"H40 priority 0, saturation 1", &Policy{}, route.Request{}, 1, false, false},
		{"priority 5, saturation 2", &Policy{}, route.Request{Priority: 5}, 2, false, false},
		{"H41 priority -1, saturation 0", &Policy{}, route.Request{Priority: -1}, 0, true, false},
		{"priority -1, saturation 1", &Policy{}, route.Request{Priority: -1}, 1, true, true},
		{"I7 critical, full", lists, route.Request{Model: "food-review"}, 2, false, false},
		{"critical, full, priority -1", lists, route.Request{Model: "food-review", Priority: -1}, 2, true, true},
		{"I9 sheddable, not full", lists, route.Request{Model: "food-review-sheddable"}, .5, true, false},
		{"sheddable, full", lists, route.Request{Model: "food-review-sheddable"}, 2, true, true},
		{"I10 standard, not full", lists, route.Request{Model: "food-review-resolve"}, .5, true, false},
		{"standard, full", lists, route.Request{Model: "food-review-resolve"}, 2, true, true},
		{"I11 unknown model, not full", lists, route.Request{Model: "food-review-1"}, .5, true, false},
		{"unknown model, full", lists, route.Request{Model: "food-review-1"}, 2, true, true},
		{"on the list of critical models, full", lists, route.Request{Model: "chat"}, 2, false, false},
		{"not on the list, however important the objective", lists, route.Request{Model: "other", Priority: 100}, 2, true, true},
		{"by the name that the client gave", lists, route.Request{Model: "chat-v2", ClientModel: "chat"}, 2, false, false},
		{"an empty list is a list", &Policy{CriticalModels: []string{}}, route.Request{Model: "chat"}, 2, true, true},
	} {
		t.Run(c.id, func(t *testing.T) {
			g := NewGate(nil)
			g.Use(c.policy)
			d := &says{value: c.full}
			cy := cycle(t, at(0, 0))
			cy.Request = &c.request
			a := g.Admit(cy, d, routetest.Positions(1))
			if a.Sheddable != c.sheddable || a.Shed != c.shed || a.Sheddable != (a.Because != "") || a.Priority != c.request.Priority {
				t.Errorf("%+v, want sheddable %v, shed %v", a, c.sheddable, c.shed)
			}
			if asked := a.Sheddable; (d.asked == 1) != asked || (a.Detector != "") != asked {
				t.Errorf("the detector was asked %d times (%q); it is of no use unless something depends on it", d.asked, a.Detector)
			}
		})
	}
}

// An explanation shows how full it is, also where nothing depends on it; and without a
// detector nobody is turned away.
func TestExplanationsAskAlways(t *testing.T) {
	g := NewGate(nil)
	c := cycle(t, at(0, 0))
	c.Explain = true
	want := route.Admission{Detector: "says", Saturation: 3, Saturated: true}
	if d := cmp.Diff(want, g.Admit(c, &says{value: 3}, routetest.Positions(1))); d != "" {
		t.Error(d)
	}
	c.Request.Priority = -1
	if a := g.Admit(c, nil, routetest.Positions(1)); a.Shed || !a.Sheddable {
		t.Errorf("without a detector: %+v", a)
	}
}

func TestPriorityIsLookedUpByName(t *testing.T) {
	g := NewGate(nil)
	g.Use(&Policy{Objectives: []Objective{{"batch", -1}, {"chat", 5}, {"batch", 7}}})
	for _, c := range []struct {
		id   string
		h    headers
		want int32
	}{
		{"none", nil, 0},
		{"known", headers{HeaderObjective: "chat"}, 5},
		{"the oldest wins", headers{HeaderObjective: "batch"}, -1},
		{"unknown", headers{HeaderObjective: "urgent"}, 0},
		{"a number is a name", headers{HeaderObjective: "100"}, 0},
		{"B219 a client sets its own priority", headers{"x-priority": "100", "x-pointsman-priority": "100"}, 0},
	} {
		if got := g.PriorityOf(c.h); got != c.want {
			t.Errorf("%s: %d, want %d", c.id, got, c.want)
		}
	}
	g.Use(&Policy{})
	if _, there := g.Priority("chat"); there {
		t.Error("an objective that was removed is still there")
	}
}

func TestWhichRewrite(t *testing.T) {
	one := func(m string) []Target { return []Target{{Model: m}} }
	rules := []Rule{
		{Targets: one("generic-oldest")},
		{Targets: one("generic-newer")},
		{Models: []string{"a", "b"}, Targets: one("exact-oldest")},
		{Models: []string{"a"}, Targets: one("exact-newer")},
		{Models: []string{"same"}, Targets: one("same")},
	}
	models := []Model{{Name: "a", Targets: one("of-model")}, {Name: "c", Targets: one("of-model")}, {Name: "c", Targets: one("of-newer-model")}, {Name: "d", Critical: true}}
	for _, c := range []struct {
		id     string
		policy Policy
		model  string
		want   string // "" for none
	}{
		{"no rules", Policy{}, "a", ""},
		{"no match", Policy{Rules: rules[2:]}, "z", ""},
		{"exact match", Policy{Rules: rules[2:]}, "b", "exact-oldest"},
		{"generic match", Policy{Rules: rules}, "z", "generic-oldest"},
		{"exact beats generic, which is older", Policy{Rules: rules}, "a", "exact-oldest"},
		{"oldest exact", Policy{Rules: rules[2:]}, "a", "exact-oldest"},
		{"the next oldest once the oldest is deleted", Policy{Rules: rules[3:]}, "a", "exact-newer"},
		{"generic once the exact is deleted", Policy{Rules: rules[:2]}, "a", "generic-oldest"},
		{"to itself", Policy{Rules: rules}, "same", ""},
		{"no model", Policy{Rules: rules}, "", ""},
		{"I10 target of a model", Policy{Models: models}, "c", "of-model"},
		{"rewrites come before models", Policy{Rules: rules[2:], Models: models}, "a", "exact-oldest"},
		{"models come before generic rules", Policy{Rules: rules, Models: models}, "c", "of-model"},
		{"a model without targets", Policy{Models: models}, "d", ""},
		{"I11 unknown model", Policy{Models: models}, "food-review-1", ""},
	} {
		t.Run(c.id, func(t *testing.T) {
			g := NewGate(nil)
			g.Use(&c.policy)
			got, ok := g.Rewrite(&route.Request{Model: c.model})
			if ok != (c.want != "") || ok && got != c.want {
				t.Errorf("%q, %v, want %q", got, ok, c.want)
			}
		})
	}
}

// Targets are drawn in proportion to their weights: χ² at 99.9 %.
func TestTargetsAreDrawnByWeight(t *testing.T) {
	const n = 20000
	for name, weights := range map[string][]uint32{
		"100": {100}, "50/50": {50, 50}, "70/30": {70, 30}, "25/55/50": {25, 55, 50}, "20/20/10": {20, 20, 10},
		"0/0, equal shares": {0, 0}, "0/7, nothing for the first": {0, 7}, "a million each": {1e6, 1e6, 1e6},
	} {
		t.Run(name, func(t *testing.T) {
			var targets []Target
			sum := uint32(0)
			for i, w := range weights {
				targets = append(targets, Target{string(rune('a' + i)), w})
				sum += w
			}
			rng := rand.New(rand.NewPCG(420, 1))
			counts := make(map[string]int)
			for range n {
				counts[draw(targets, rng.IntN)]++
			}
			chi := 0.0
			for i, w := range weights {
				want := n / float64(len(weights))
				if sum > 0 {
					want = n * float64(w) / float64(sum)
				}
				got := float64(counts[targets[i].Model])
				if want == 0 {
					if got > 0 {
						t.Errorf("a target of weight 0 was drawn %v times", got)
					}
					continue
				}
				chi += (got - want) * (got - want) / want
			}
			if chi > 13.8 { // 2 degrees of freedom
				t.Errorf("χ² %.1f: %v for weights %v", chi, counts, weights)
			}
		})
	}
}

func TestConfigsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*UtilizationConfig){
		"H22 q 0": func(c *UtilizationConfig) { c.QueueDepth = 0 }, "H10 q -1": func(c *UtilizationConfig) { c.QueueDepth = -1 },
		"H22 kv 1.5": func(c *UtilizationConfig) { c.KVCacheUtil = 1.5 }, "H22 kv 0": func(c *UtilizationConfig) { c.KVCacheUtil = 0 },
		"H10 kv -5": func(c *UtilizationConfig) { c.KVCacheUtil = -5 }, "H22 headroom -.5": func(c *UtilizationConfig) { c.Headroom = -.5 },
		"staleness below 0": func(c *UtilizationConfig) { c.Staleness = -1 },
	} {
		c := DefaultUtilizationConfig()
		change(&c)
		if _, err := NewUtilization("u", c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, change := range map[string]func(*ConcurrencyConfig){
		"H35 max 0": func(c *ConcurrencyConfig) { c.MaxRequests = 0 }, "H35 tokens 0": func(c *ConcurrencyConfig) { c.MaxTokens = 0 },
		"H35 headroom -.5": func(c *ConcurrencyConfig) { c.Headroom = -.5 }, "H35 mode magic": func(c *ConcurrencyConfig) { c.Count = "magic" },
	} {
		c := DefaultConcurrencyConfig()
		change(&c)
		if _, err := NewConcurrency("k", c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
