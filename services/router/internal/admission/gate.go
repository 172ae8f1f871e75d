package admission

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// HeaderObjective is the request header that names an objective, in lower case.
const HeaderObjective = "x-gateway-inference-objective"

// Gate lets requests in, and rewrites models, by the newest Policy. It is safe for
// concurrent use.
type Gate struct {
	book atomic.Pointer[book]
	intn func(n int) int
}

// NewGate returns a Gate with an empty Policy. intn returns a uniform number in [0, n)
// and is safe for concurrent use; nil: the process's generator.
func NewGate(intn func(n int) int) *Gate {
	if intn == nil {
		intn = rand.IntN
	}
	g := &Gate{intn: intn}
	g.Use(&Policy{})
	return g
}

// Use makes p the Policy of all further requests. p must not be changed any more.
func (g *Gate) Use(p *Policy) { g.book.Store(newBook(p)) }

// Priority returns the priority of the objective of that name, and false if there is
// none.
func (g *Gate) Priority(objective string) (int32, bool) {
	p, there := g.book.Load().priorities[objective]
	return p, there
}

// PriorityOf returns the priority of the objective that the request's headers name; 0 if
// they name none, or none that there is.
func (g *Gate) PriorityOf(h route.Headers) int32 {
	if name := h.Get(HeaderObjective); name != "" {
		p, _ := g.Priority(name)
		return p
	}
	return 0
}

// Rewrite returns the model that is to take the place of the request's, and false if
// none is. It draws anew at each call.
func (g *Gate) Rewrite(r *route.Request) (model string, ok bool) {
	if r.Model == "" {
		return "", false
	}
	targets := g.book.Load().targets(r.Model)
	if len(targets) == 0 {
		return "", false
	}
	model = draw(targets, g.intn)
	return model, model != r.Model
}

// Admit implements route.Admitter.
func (g *Gate) Admit(c *route.Cycle, by route.Detector, candidates []int32) route.Admission {
	a := route.Admission{Priority: c.Request.Priority}
	critical := g.book.Load().critical
	switch {
	case a.Priority < 0:
		a.Sheddable, a.Because = true, "its priority is below 0"
	case critical != nil && !critical[c.Request.AskedModel()]:
		a.Sheddable, a.Because = true, "its model is not critical"
	}
	if by == nil || !a.Sheddable && !c.Explain {
		return a
	}
	a.Detector = by.Name()
	a.Saturation, a.Saturated = by.Saturation(c, candidates)
	a.Shed = a.Sheddable && a.Saturated
	return a
}
