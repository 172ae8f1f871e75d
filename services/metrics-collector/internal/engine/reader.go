package engine

import (
	"hash/maphash"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/pointsman/pointsman/services/metrics-collector/internal/page"
)

const (
	modelLabel = "model_name"
	// maxModels bounds what is taken from model labels.
	maxModels = 64
	// maxName is the longest name of a model or adapter that is taken.
	maxName = 256
)

// Reader reads the pages of one endpoint, one after the other. It keeps memory
// between pages, so that a page like the one before is read without allocating.
// It is not safe for concurrent use.
type Reader struct {
	plan    *plan
	seed    maphash.Seed
	scanner page.Scanner
	columns []column // by slot
	loras   []lora   // by engine of the plan
	models  []models // by engine of the plan
}

func newReader(p *plan) *Reader {
	return &Reader{
		plan: p, seed: maphash.MakeSeed(), columns: make([]column, len(p.slots)),
		loras: make([]lora, len(p.engines)), models: make([]models, len(p.engines)),
	}
}

// Read returns what a page says. Whatever the bytes are, it returns figures: those
// that cannot be read are unknown.
func (r *Reader) Read(text []byte) Figures {
	for i := range r.columns {
		r.columns[i].reset()
	}
	for i := range r.loras {
		r.loras[i].reset()
		r.models[i].reset()
	}
	r.scanner.Reset(r.plan.index, text)
	for r.scanner.Next() {
		slots := r.plan.families[r.scanner.Name()]
		s, err := r.scanner.Sample()
		if err != nil {
			for _, at := range slots {
				r.broken(at)
			}
			continue
		}
		for _, at := range slots {
			r.take(at, s)
		}
	}
	return r.figures()
}

func (r *Reader) broken(at int) {
	if sl := &r.plan.slots[at]; sl.quantity == adapters {
		r.loras[sl.engine].broken = true
	}
	r.columns[at].broken = true
}

// take gives a sample to a slot.
func (r *Reader) take(at int, s *page.Sample) {
	sl := &r.plan.slots[at]
	if sl.whereLabel != "" {
		if v, _ := s.Get(sl.whereLabel); string(v) != sl.whereValue {
			return
		}
	}
	if sl.quantity == adapters {
		_, engine := identify(r.seed, s.Labels, adapterLabel)
		r.loras[sl.engine].add(engine, s)
		return
	}
	if sl.quantity == waiting || sl.quantity == running {
		if name, ok := s.Get(modelLabel); ok {
			r.models[sl.engine].add(name)
		}
	}
	value := s.Value
	if sl.valueLabel != "" {
		text, ok := s.Get(sl.valueLabel)
		if !ok {
			return
		}
		n, ok := natural(text)
		if !ok {
			return // such as None, while the engine has not decided yet
		}
		value = float64(n)
	}
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0), value < 0 && sl.quantity != usage:
		r.columns[at].broken = true
		return
	case sl.quantity == usage:
		value = min(max(value, 0), 1)
	}
	identity, engine := identify(r.seed, s.Labels, nil)
	r.columns[at].add(series{identity, engine, value, s.Timestamp})
}

// figures chooses the engine and adds up.
func (r *Reader) figures() Figures {
	best := Figures{Waiting: Unknown, Running: Unknown, KVCacheUsage: Unknown}
	most := 0
	for e, name := range r.plan.engines {
		f := r.figuresOf(e)
		known := 0
		for _, k := range []bool{f.Waiting != Unknown, f.Running != Unknown, f.KVCacheUsage != Unknown} {
			if k {
				known++
			}
		}
		if known > most {
			most, best = known, f
			best.Engine = name
			best.Adapters, best.Models = r.loras[e].adapters(), r.models[e].list()
		}
	}
	return best
}

func (r *Reader) figuresOf(engine int) Figures {
	f := Figures{Waiting: Unknown, Running: Unknown, KVCacheUsage: Unknown}
	if c := r.column(engine, waiting); c != nil {
		f.Waiting = count(c.sum())
	}
	if c := r.column(engine, running); c != nil {
		f.Running = count(c.sum())
	}
	if c := r.column(engine, usage); c != nil {
		f.KVCacheUsage = float32(c.mean())
	}
	if c := r.column(engine, blockSize); c != nil {
		f.BlockSize = uint32(min(c.most(), math.MaxUint32))
	}
	if c := r.column(engine, blockCount); c != nil {
		f.BlockCount = uint32(min(c.sum(), math.MaxUint32))
	}
	return f
}

// column returns what the best-ranked readable spelling of a quantity says.
func (r *Reader) column(engine int, q quantity) *column {
	best, rank := -1, 0
	for i := range r.plan.slots {
		sl := &r.plan.slots[i]
		if sl.engine != engine || sl.quantity != q || !r.columns[i].known() {
			continue
		}
		if best < 0 || sl.rank < rank {
			best, rank = i, sl.rank
		}
	}
	if best < 0 {
		return nil
	}
	return &r.columns[best]
}

func count(v float64) int32 { return int32(min(math.Round(v), math.MaxInt32)) }

// natural reads a whole number as it stands in a label.
func natural(b []byte) (n uint32, ok bool) {
	if len(b) == 0 || len(b) > 9 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint32(c-'0')
	}
	return n, true
}

// usable says whether the name of a model or adapter can be told to the pool. One
// that cannot would hold back the figures of all endpoints told along with it.
func usable(name []byte) bool { return len(name) > 0 && len(name) <= maxName && utf8.Valid(name) }

// models collects model names and remembers the list of the last page.
type models struct {
	seen   []string
	result []string
}

func (m *models) reset() { m.seen = m.seen[:0] }

func (m *models) add(name []byte) {
	if !usable(name) || len(m.seen) == maxModels {
		return
	}
	for _, s := range m.seen {
		if s == string(name) {
			return
		}
	}
	for _, s := range m.result { // known from the last page: no new string
		if s == string(name) {
			m.seen = append(m.seen, s)
			return
		}
	}
	m.seen = append(m.seen, string(name))
}

// list returns the names in order; the same slice as long as they are the same.
func (m *models) list() []string {
	if len(m.seen) == 0 {
		m.result = nil
		return nil
	}
	slices.Sort(m.seen)
	if !slices.Equal(m.seen, m.result) {
		m.result = slices.Clone(m.seen)
	}
	return m.result
}
