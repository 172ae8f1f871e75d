package index

import (
	"math/rand/v2"
	"testing"
)

// TestMemoryIsBounded fills an index far beyond its budget with prompts whose mix
// shifts from unshared to shared, and wants it to stay within, and warm prompts to
// stay while cold ones go.
func TestMemoryIsBounded(t *testing.T) {
	cfg := Config{MaxBytes: leastBytes, DefaultCapacity: 31250}
	x := newIndex(t, cfg)
	ids := names(40)
	x.SetEndpoints(ids)
	warm := long(1, 2, 10, 200)
	rnd := rand.New(rand.NewPCG(1, 2))
	most := int64(0)
	for i := range 3000 {
		id := ids[rnd.IntN(len(ids))]
		switch phase := i / 1000; {
		case i%50 == 0:
			place(t, x, ids[0], warm)
		case phase == 1:
			place(t, x, id, long(3, uint64(i/40), 20, 150))
		default:
			place(t, x, id, long(3, uint64(i), 20, 150))
		}
		most = max(most, x.Stats().Bytes)
	}
	x.check(t)
	s := x.Stats()
	// A bitmap arena may grow between two looks at the budget.
	if most > cfg.MaxBytes+4*chunkLen*8 {
		t.Errorf("needed %d bytes, allowed %d", most, cfg.MaxBytes)
	}
	if s.Evicted.Memory == 0 || s.Evicted.Capacity != 0 {
		t.Errorf("evicted %+v, want for memory only", s.Evicted)
	}
	if s.Bytes < cfg.MaxBytes*9/10 {
		t.Errorf("only %d bytes of %d in use: too much went", s.Bytes, cfg.MaxBytes)
	}
	if got := match(x, testKey, warm, ids[:1]); got[0] != uint32(len(warm)) {
		t.Errorf("the prompt in constant use matches %d of %d blocks", got[0], len(warm))
	}
}

func TestNothingIsEvictedForAdoption(t *testing.T) {
	cfg := Config{MaxBytes: leastBytes, DefaultCapacity: 1 << 20}
	from, to := newIndex(t, Config{MaxBytes: 1 << 30, DefaultCapacity: 1 << 20}), newIndex(t, cfg)
	ids := names(2)
	from.SetEndpoints(ids)
	to.SetEndpoints(ids)
	for i := range uint64(1000) {
		if _, err := from.Place(testKey, ids[i%2], long(1, i, 5, 200)); err != nil {
			t.Fatal(err)
		}
	}
	e, full := from.Export(), false
	for segments := e.Next(50000); len(segments) > 0 && !full; segments = e.Next(50000) {
		for _, s := range segments {
			if _, full = to.Adopt(s); full {
				break
			}
		}
	}
	s := to.Stats()
	if !full || s.Evicted != (Evictions{}) || s.Bytes > cfg.MaxBytes+4*chunkLen*8 {
		t.Errorf("full %v, %+v", full, s)
	}
	// Newest first, so what was adopted is what was placed last.
	newest := long(1, 999, 5, 200)
	if got := match(to, testKey, newest, ids[1:]); got[0] != 200 {
		t.Errorf("the newest prompt matches %d blocks, want 200", got[0])
	}
	to.check(t)
}
