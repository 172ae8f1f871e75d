package admission

// Policy is what operators say of requests, in order of precedence: of two that say
// something of the same name the first counts.
type Policy struct {
	// Objectives are the names that requests can give, with priorities.
	Objectives []Objective
	// Rules are those of all rewrites, in order.
	Rules []Rule
	// Models are those of the first generation.
	Models []Model
	// CriticalModels are models whose requests are never shed; nil: there is no list.
	CriticalModels []string
}

// Objective is a named priority; higher is more important.
type Objective struct {
	Name     string
	Priority int32
}

// Rule says what requests for Models, or for all if there are none, are changed to.
type Rule struct {
	Models  []string
	Targets []Target
}

// Target is a model and its share among the targets of a rule.
type Target struct {
	Model string
	// Weight is at least 0. If all are 0, shares are equal.
	Weight uint32
}

// Model is a model as requests name it.
type Model struct {
	Name     string
	Critical bool
	// Targets are what it is changed to; none: nothing.
	Targets []Target
}

// book is a Policy to look things up in.
type book struct {
	priorities map[string]int32
	exact      map[string][]Target
	generic    []Target        // of the first rule for all; nil: there is none
	critical   map[string]bool // nil: nothing is said of any model
}

func newBook(p *Policy) *book {
	b := &book{priorities: make(map[string]int32, len(p.Objectives)), exact: make(map[string][]Target)}
	for _, o := range p.Objectives {
		if _, there := b.priorities[o.Name]; !there {
			b.priorities[o.Name] = o.Priority
		}
	}
	change := func(model string, to []Target) {
		if _, there := b.exact[model]; !there && len(to) > 0 {
			b.exact[model] = to
		}
	}
	for _, r := range p.Rules {
		for _, m := range r.Models {
			change(m, r.Targets)
		}
		if len(r.Models) == 0 && b.generic == nil && len(r.Targets) > 0 {
			b.generic = r.Targets
		}
	}
	if p.CriticalModels != nil || len(p.Models) > 0 {
		b.critical = make(map[string]bool)
	}
	seen := make(map[string]bool, len(p.Models))
	for _, m := range p.Models {
		if seen[m.Name] {
			continue
		}
		seen[m.Name] = true
		change(m.Name, m.Targets) // rewrites have gone first
		if m.Critical {
			b.critical[m.Name] = true
		}
	}
	for _, m := range p.CriticalModels {
		b.critical[m] = true
	}
	return b
}

// targets returns what a model is changed to; nil for nothing. A rule that names the
// model comes before one for all.
func (b *book) targets(model string) []Target {
	if exact, there := b.exact[model]; there {
		return exact
	}
	return b.generic
}

// draw draws a target by weight. intn returns a uniform number in [0, n).
func draw(targets []Target, intn func(n int) int) string {
	sum := 0
	for _, t := range targets {
		sum += int(t.Weight)
	}
	if sum == 0 {
		return targets[intn(len(targets))].Model
	}
	at := intn(sum)
	for _, t := range targets {
		if at -= int(t.Weight); at < 0 {
			return t.Model
		}
	}
	return targets[len(targets)-1].Model // not reached: at was below the sum
}
