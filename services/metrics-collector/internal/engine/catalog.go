package engine

import "github.com/pointsman/pointsman/services/metrics-collector/internal/page"

// Catalog is what is known of engines, made ready for reading pages. It is
// immutable and shared by all readers.
type Catalog struct {
	all    *plan
	single map[Name]*plan
}

// plan is how to read pages of some engines.
type plan struct {
	engines []Name
	index   *page.Index
	// slots of each family, by its position in the index.
	families [][]int
	slots    []slot
}

// slot collects what one rule finds.
type slot struct {
	rule
	engine int // position in plan.engines
}

// NewCatalog returns the known engines.
func NewCatalog() *Catalog {
	defs := definitions()
	c := &Catalog{all: newPlan(defs), single: make(map[Name]*plan, len(defs))}
	for _, d := range defs {
		c.single[d.engine] = newPlan([]definition{d})
	}
	return c
}

// Reader returns a reader for the pages of one endpoint. With engine empty it finds
// out which engine it is, page by page.
func (c *Catalog) Reader(engine Name) *Reader {
	p := c.single[engine]
	if p == nil {
		p = c.all
	}
	return newReader(p)
}

func newPlan(defs []definition) *plan {
	p := &plan{}
	var names []string
	position := make(map[string]int)
	for e, d := range defs {
		p.engines = append(p.engines, d.engine)
		for _, r := range d.rules {
			at, ok := position[r.family]
			if !ok {
				at = len(names)
				position[r.family] = at
				names = append(names, r.family)
				p.families = append(p.families, nil)
			}
			p.families[at] = append(p.families[at], len(p.slots))
			p.slots = append(p.slots, slot{r, e})
		}
	}
	p.index = page.NewIndex(names...)
	return p
}
