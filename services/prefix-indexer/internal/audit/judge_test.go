package audit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

var (
	key   = index.Key{Scheme: "test", BlockSize: 64}
	began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// step is a request of 4096 bytes, 1024 tokens, that ends before the next comes.
type step struct {
	held   int        // blocks of 64 that were believed to be there
	last   index.Mark // by this placement
	cached uint32     // tokens of 1000 that the engine reports
	after  time.Duration

	verdict Verdict
	upTo    index.Mark
}

func TestJudge(t *testing.T) {
	warm := step{held: 64, last: 1, cached: 900, verdict: Agrees}
	for name, steps := range map[string][]step{
		"B142: a wiped cache is found out by three, up to what two of them say": {
			warm,
			{held: 64, last: 10, cached: 0, verdict: Contradicts},
			{held: 64, last: 30, cached: 16, verdict: Contradicts},
			{held: 64, last: 20, cached: 0, verdict: Contradicts, upTo: 20},
			{held: 64, last: 15, cached: 0, verdict: Unclear}, // believed before it was forgotten
			{held: 64, last: 40, cached: 0, verdict: Contradicts},
			{held: 64, last: 50, cached: 0, verdict: Contradicts, upTo: 40}, // 30 is still a witness
		},
		"a prefix that is still there though others are not": {
			warm,
			{held: 64, last: 30, cached: 500, verdict: Unclear},
			{held: 64, last: 20, cached: 480, verdict: Contradicts},
			{held: 64, last: 30, cached: 480, verdict: Contradicts},
			{held: 64, last: 25, cached: 760, verdict: Agrees}, // so 30 cannot have been let go of
			{held: 64, last: 20, cached: 0, verdict: Contradicts},
			{held: 64, last: 15, cached: 1000, verdict: Agrees},
			{held: 64, last: 20, cached: 0, verdict: Contradicts},
			{held: 64, last: 20, cached: 0, verdict: Contradicts},
			{held: 64, last: 21, cached: 0, verdict: Contradicts, upTo: 20},
		},
		"a cache that is smaller than the index: what is old goes, what is young stays": {
			warm,
			{held: 64, last: 5, cached: 0, verdict: Contradicts},
			{held: 64, last: 90, cached: 1000, verdict: Agrees},
			{held: 64, last: 7, cached: 0, verdict: Contradicts},
			{held: 64, last: 95, cached: 1000, verdict: Agrees},
			{held: 64, last: 6, cached: 0, verdict: Contradicts, upTo: 6},
			{held: 64, last: 80, cached: 1000, verdict: Agrees},
		},
		"who never reports cached tokens says nothing by reporting none": {
			{held: 64, last: 10, cached: 0, verdict: Unclear},
			{held: 64, last: 11, cached: 0, verdict: Unclear},
			{held: 64, last: 12, cached: 0, verdict: Unclear},
			{held: 64, last: 13, cached: 0, verdict: Unclear},
		},
		"short prefixes say nothing": {
			warm,
			{held: 15, last: 10, cached: 0, verdict: Unclear},
			{held: 0, last: 0, cached: 0, verdict: Unclear},
			{held: 15, last: 12, cached: 900, verdict: Unclear},
			{held: 16, last: 12, cached: 0, verdict: Contradicts},
		},
		"contradictions far apart": {
			warm,
			{held: 64, last: 10, cached: 0, verdict: Contradicts},
			{held: 64, last: 10, cached: 0, verdict: Contradicts},
			{held: 64, last: 10, cached: 0, after: witnessLife + time.Second, verdict: Contradicts},
			{held: 64, last: 10, cached: 0, verdict: Contradicts},
			{held: 64, last: 10, cached: 0, verdict: Contradicts, upTo: 10},
		},
		"more blocks than the prompt was estimated to have": {
			warm,
			{held: 500, last: 10, cached: 1000, verdict: Agrees},
		},
	} {
		t.Run(name, func(t *testing.T) {
			j, now := NewJudge(), began
			for i, s := range steps {
				now = now.Add(s.after)
				own := index.Mark(1000 + i)
				c := j.Begin(key, "a", index.Placed{Mark: own, Held: s.held, Last: s.last}, now)
				j.Computed(&c)
				v, upTo := j.Compare(&c, Report{PromptTokens: 1000, CachedTokens: s.cached, EstimatedTokens: 1024}, now)
				if v != s.verdict || upTo != s.upTo {
					t.Errorf("step %d: %s up to %d, want %s up to %d", i, v, upTo, s.verdict, s.upTo)
				}
			}
		})
	}
}

// Requests of one prompt that come at once are all believed to hit but the first, and
// all miss, since nothing is computed yet. That says nothing.
func TestABurstIsNoContradiction(t *testing.T) {
	j := NewJudge()
	report := func(c Claim, cached uint32) Verdict {
		j.Computed(&c)
		v, upTo := j.Compare(&c, Report{PromptTokens: 1000, CachedTokens: cached, EstimatedTokens: 1024}, began)
		if upTo != 0 {
			t.Errorf("forgotten up to %d", upTo)
		}
		return v
	}
	claim := func(own, last index.Mark) Claim {
		return j.Begin(key, "a", index.Placed{Mark: own, Held: 64, Last: last}, began)
	}
	report(claim(1, 0), 900) // it tells
	var burst []Claim
	for i := range index.Mark(8) {
		burst = append(burst, claim(10+i, 9+i))
	}
	for i, c := range burst {
		// The first rests on something that was there before.
		want := Unclear
		if i == 0 {
			want = Contradicts
		}
		if v := report(c, 0); v != want {
			t.Errorf("request %d of the burst: %s, want %s", i, v, want)
		}
	}
	if v := report(claim(20, 17), 0); v != Contradicts {
		t.Errorf("after the burst: %s", v)
	}
	// One that never got a token is doubted for a while.
	failed := claim(30, 20)
	_ = failed
	if c := claim(31, 30); !c.Unfounded {
		t.Error("a placement that nothing came of is taken for computed")
	}
	j.Sweep(began.Add(doubtLife + time.Second))
	if c := claim(32, 30); c.Unfounded {
		t.Error("doubted for ever")
	}
}

func TestWhoLeavesIsForgotten(t *testing.T) {
	j := NewJudge()
	for _, id := range []string{"a", "b"} {
		c := j.Begin(key, id, index.Placed{Mark: 2, Held: 64, Last: 1}, began)
		j.Compare(&c, Report{PromptTokens: 10, CachedTokens: 9, EstimatedTokens: 10}, began)
	}
	j.Keep([]string{"b", "c"})
	if j.Tells("a") || !j.Tells("b") || len(j.places) != 1 {
		t.Errorf("after a left: tells %v, places %v", j.tells, j.places)
	}
}

// An engine that is an LRU cache is never said to have lost what it holds, whatever its
// size: everything that is forgotten is gone there.
func TestNothingThatIsThereIsForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const prompts = 12
		size := rapid.IntRange(0, prompts).Draw(t, "prompts that the engine holds")
		j, now := NewJudge(), began
		last := map[int]index.Mark{} // in the index
		var cache []int              // in the engine, the newest last
		forgotten := index.Mark(0)
		drop := func(p int) bool {
			for i, q := range cache {
				if q == p {
					cache = append(cache[:i:i], cache[i+1:]...)
					return true
				}
			}
			return false
		}
		for mark := index.Mark(1); mark < 200; mark++ {
			if rapid.IntRange(0, 60).Draw(t, "wipe") == 0 {
				cache = nil
			}
			p := rapid.IntRange(0, prompts-1).Draw(t, "prompt")
			placed := index.Placed{Mark: mark}
			if last[p] > forgotten {
				placed.Held, placed.Last = 64, last[p]
			}
			c := j.Begin(key, "a", placed, now)
			cached := uint32(0)
			if drop(p) {
				cached = 1024
			}
			cache = append(cache, p)
			if len(cache) > size {
				cache = cache[len(cache)-size:]
			}
			last[p] = mark
			j.Computed(&c)
			if _, upTo := j.Compare(&c, Report{PromptTokens: 1024, CachedTokens: cached, EstimatedTokens: 1024}, now); upTo != 0 {
				forgotten = upTo
				for _, q := range cache {
					if last[q] <= upTo {
						t.Fatalf("prompt %d, last sent as %d, is forgotten up to %d and is there: %v", q, last[q], upTo, cache)
					}
				}
			}
		}
	})
}

func TestB143ReportsFarAboveTheBelief(t *testing.T) {
	var r Rates
	add := func(n int, cached uint32, share float64) (changes []bool) {
		for range n {
			if changed, under, _, _ := r.Add(Report{PromptTokens: 1000, CachedTokens: cached, EstimatedTokens: 1000}, share); changed {
				changes = append(changes, under)
			}
		}
		return changes
	}
	for _, c := range []struct {
		name   string
		n      int
		cached uint32
		share  float64
		want   []bool
	}{
		{"a beginning says nothing yet", firstReports - 1, 900, 0, nil},
		{"then it is told once", 500, 900, 0, []bool{true}},
		{"a little better is not well", 2000, 900, .5, nil},
		{"well", 2000, 900, .85, []bool{false}},
		{"a little worse is not bad", 2000, 900, .6, nil},
		{"far below, by little: small prompts of all", 2000, 150, .01, nil},
		{"bad again", 2000, 900, .4, []bool{true}},
		{"engines that find nothing", 4000, 0, .5, []bool{false}},
	} {
		if diff := cmp.Diff(c.want, add(c.n, c.cached, c.share)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if got := r.Totals(); got.Prompt == 0 || got.Cached == 0 || got.Believed == 0 || got.Underestimated {
		t.Errorf("totals %+v", got)
	}
}
