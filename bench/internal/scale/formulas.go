package scale

import "github.com/pointsman/pointsman/bench/internal/fit"

// Formula is one that was fitted.
type Formula struct {
	// Of is what it is the cost of, Load under which that was measured, and Unit its unit.
	Of   string `json:"of"`
	Load Load   `json:"load"`
	Unit Unit   `json:"unit"`
	// Cells is how many cells have the figure. Those are left out of Model.Points at which
	// it was not above zero, as a difference of two windows can be, or too many calls of
	// scorers were not answered.
	Cells int `json:"cells"`
	// Reason says why nothing could be fitted; empty if it could.
	Reason string `json:"reason,omitempty"`
	fit.Model
	terms []term
}

// At is the formula's value at a point.
func (f *Formula) At(p Point) float64 { return f.Model.At(values(f.terms, p)...) }

// flow is outcomes and prompts together.
const flow = "outcomes and prompts"

// mostUnanswered is the share of calls of scorers that may go without an answer: a pick
// without scores is cheaper, and is not what formulas are of.
const mostUnanswered = 0.05

// Unit is what a formula gives.
type Unit string

// Units.
const (
	perPick     Unit = "µs per pick, all replicas"
	perSecond   Unit = "µs/s of a replica, idle"
	bytesIn     Unit = "bytes/s into NATS"
	messagesIn  Unit = "messages/s into NATS"
	residentMiB Unit = "MiB of a replica"
)

// term is a part of a formula: the name of what its constant is multiplied by, and its value.
type term struct {
	name string
	at   func(Point) float64
}

func values(terms []term, p Point) []float64 {
	v := make([]float64, len(terms))
	for i, t := range terms {
		v[i] = t.at(p)
	}
	return v
}

// Terms, by the symbols that are explained to readers: see symbols.
func one() term    { return term{"1", func(Point) float64 { return 1 }} }
func size() term   { return term{"k", func(p Point) float64 { return p.KB }} }
func blocks() term { return term{"b", Point.blocks} }
func pool() term   { return term{"e", func(p Point) float64 { return p.Endpoints }} }
func others() term { return term{"(R−1)", func(p Point) float64 { return p.Routers - 1 }} }
func receivers() term {
	return term{"N", Point.receivers}
}
func scrapes() term {
	return term{"e/τ", func(p Point) float64 { return p.Endpoints / p.Scrape.Seconds() }}
}
func picks() term  { return term{"r", func(p Point) float64 { return p.Picks }} }
func placed() term { return term{"r·b", func(p Point) float64 { return p.Picks * p.blocks() }} }
func batches() term {
	return term{"A", func(p Point) float64 { return p.alone() + p.together() }}
}

// follower are the terms of a kind of which one replica answers a call, and all n follow
// the broadcast: picks, and the messages that they come in.
func follower(n func(Point) float64) []term {
	return []term{one(), pool(), {"n", n}, {"n·m", func(p Point) float64 { return n(p) * p.In }}}
}

func scorers(p Point) float64  { return p.Scorers }
func indexers(p Point) float64 { return p.Indexers }

// figure is what a formula is to give.
type figure struct {
	of    string
	unit  Unit
	loads []Load
	terms []term
	// in is the figure of a row, and the point that it holds at; false if it was not measured.
	in func(*Row, *Point) (float64, bool)
}

// figures are all that formulas are fitted to.
func figures() []figure {
	loaded := []Load{Closed, Open}
	cpu := func(kind string, terms ...term) figure {
		return figure{kind, perPick, loaded, terms, func(w *Row, _ *Point) (float64, bool) { return w.Kind(kind).PickMicros.Median, true }}
	}
	idle := func(kind string, terms ...term) figure {
		return figure{kind, perSecond, []Load{Idle}, terms, func(w *Row, _ *Point) (float64, bool) {
			k := w.Kind(kind)
			return k.CPU.Median / float64(max(1, k.Replicas)), true
		}}
	}
	bytes := func(subject string, terms ...term) figure {
		return figure{subject, bytesIn, []Load{Open}, terms, func(w *Row, p *Point) (float64, bool) {
			if w.Counted == nil {
				return 0, false
			}
			p.Picks = w.Counted.PicksPerSecond
			f, counted := w.Counted.Subjects[subject]
			return f.Bytes, counted
		}}
	}
	resident := func(kind string) figure {
		return figure{kind, residentMiB, []Load{Closed}, []term{one(), pool()}, func(w *Row, _ *Point) (float64, bool) { return w.Kind(kind).ResidentMiB.Median, true }}
	}
	return []figure{
		cpu(router, one(), size(), pool(), others(), term{"R·m", func(p Point) float64 { return p.Routers * p.In }}),
		cpu(queue, follower(scorers)...),
		cpu(kv, follower(scorers)...),
		cpu(indexer, append(follower(indexers), blocks(), term{"n·b", func(p Point) float64 { return p.Indexers * p.blocks() }})...),
		cpu(bus, term{"m", func(p Point) float64 { return p.In }}, term{"m'", func(p Point) float64 { return p.Out }}, term{"q", func(p Point) float64 { return p.OutKB }}),
		idle(router, one(), pool()),
		idle(queue, one(), pool()),
		idle(kv, one(), pool()),
		idle(indexer, one(), pool()),
		idle(bus, one(), receivers(), term{"N·e", func(p Point) float64 { return p.receivers() * p.Endpoints }}),
		idle(collector, one(), pool(), scrapes()),
		bytes("table", one(), pool()),
		bytes("load", one(), pool()),
		bytes("outcome", batches(), picks()),
		bytes("prefix", batches(), picks(), placed()),
		{flow, messagesIn, loaded, []term{{"A₁", Point.alone}, {"A₂", Point.together}}, func(w *Row, _ *Point) (float64, bool) {
			return w.NATSPerPick.MessagesIn.Median * w.PicksPerSecond.Median, true
		}},
		resident(router), resident(queue), resident(kv), resident(bus),
	}
}

// Formulas fits all formulas to rows.
func Formulas(rows []Row) []Formula {
	var fitted []Formula
	for _, f := range figures() {
		for _, l := range f.loads {
			fitted = append(fitted, f.fit(rows, l))
		}
	}
	return fitted
}

func (f *figure) fit(rows []Row, l Load) Formula {
	all := Formula{Of: f.of, Load: l, Unit: f.unit, terms: f.terms}
	var names []string
	for _, t := range f.terms {
		names = append(names, t.name)
	}
	var points []fit.Point
	for i := range rows {
		w := &rows[i]
		if w.Load != l {
			continue
		}
		p := pointOf(w)
		v, measured := f.in(w, &p)
		if !measured {
			continue
		}
		if all.Cells++; v > 0 && w.UnansweredShare.Median <= mostUnanswered {
			points = append(points, fit.Point{Name: w.Name(), Terms: values(f.terms, p), Value: v})
		}
	}
	m, err := fit.Fit(names, points)
	if err != nil {
		all.Reason = err.Error()
	}
	all.Model = m
	return all
}
