package profile

import (
	"testing"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

// asks is a scorer that looks at prefix blocks.
type asks struct{ size int }

func (a asks) PrefixNeeds(*roster.Table) (size, limit int) { return a.size, 256 }

// prompt is a text that is so many bytes long.
type prompt int64

func (p prompt) Bytes() int64 { return int64(p) }
func (prompt) Text() string   { return "" }
func (p prompt) Blocks(size, limit int) []uint64 {
	return make([]uint64, min(int(p)/size, limit))
}

// decoded is the result of a decode profile whose pick is the second of two candidates.
func decoded(scores ...route.Scores) *route.ProfileResult {
	p := &route.Profile{Name: "decode"}
	for range scores {
		p.Scorers = append(p.Scorers, route.Scorer{Plugin: "prefix", Asked: asks{64}, Weight: 2})
	}
	return &route.ProfileResult{Profile: p, Candidates: []int32{0, 1}, Ranked: []int32{1, 0}, Scores: scores}
}

// holds is what a prefix scorer says when the pick holds so many blocks of tokens tokens,
// and the other candidate everything.
func holds(blocks, tokens int) route.Scores {
	return route.Scores{Verdict: route.Scored, Values: []float32{1, .5}, Matched: []uint32{1 << 20, uint32(blocks)}, BlockSize: 4 * tokens, Blocks: 1 << 20}
}

func TestPrefixBasedRows(t *testing.T) {
	for _, c := range []struct {
		id                string
		nonCached, tokens int // parameters
		input             uint32
		decode            *route.ProfileResult
		want              route.Reason // "": it is prefilled elsewhere
		cached            int64
	}{
		{"A1", 0, 0, 10, decoded(holds(5, 1)), route.ReasonDeclined, -1},
		{"A2 nobody to decode, switched off", 0, 0, 10, nil, route.ReasonDeclined, -1},
		{"A2 nobody to decode", 5, 0, 10, nil, route.ReasonDeclined, -1},
		{"A4 below promptTokens", 5, 20, 10, decoded(holds(0, 1)), route.ReasonDeclined, -1},
		{"A7 equal counts", 5, 10, 10, decoded(holds(5, 1)), "", 5},
		{"A8", 5, 0, 10, decoded(holds(8, 1)), route.ReasonDeclined, 8},
		{"A10", 3, 0, 10, decoded(holds(2, 1)), "", 2},
		{"A11 all cached", 1, 0, 10, decoded(holds(10, 1)), route.ReasonDeclined, 10},
		// A scorer may rate blocks in slower memory lower; how many there are is what counts.
		{"A14 unweighted", 512, 0, 4096, decoded(holds(240, 16)), route.ReasonDeclined, 3840},
		{"A16 no prefix scorer", 5, 0, 10, decoded(), route.ReasonMatchUnknown, -1},
		{"A16 it was late", 5, 0, 400, decoded(route.Scores{Verdict: route.TimedOut, Matched: []uint32{0, 0}, BlockSize: 64}), route.ReasonMatchUnknown, -1},
		{"A16 it says nothing of matches", 5, 0, 400, decoded(route.Scores{Verdict: route.Scored, Values: []float32{0, 0}}), route.ReasonMatchUnknown, -1},
		{"it abstains, and tells", 5, 0, 400, decoded(route.Scores{Verdict: route.Abstained, Matched: []uint32{9, 0}, BlockSize: 64, Blocks: 20}), "", 0},
		{"two tell: the longer match", 5, 0, 400, decoded(holds(4, 16), holds(300, 1)), "", 300},
		{"more than there is", 5, 0, 10, decoded(holds(100, 16)), route.ReasonDeclined, 10},
		{"no whole block: it is nowhere", 5, 0, 10, decoded(route.Scores{Verdict: route.Abstained, Reason: "not applicable"}), "", 0},
		{"shorter than what must be missing", 11, 0, 10, decoded(holds(0, 1)), route.ReasonDeclined, -1},
		{"no prompt was read", 5, 0, 0, decoded(holds(0, 1)), route.ReasonDeclined, -1},
	} {
		t.Run(c.id, func(t *testing.T) {
			req := &route.Request{PromptTokens: c.input, Prompt: prompt(4 * int64(c.input))}
			v := NewPrefixBased("d", c.nonCached, c.tokens).Decide(routetest.Cycle(t, req, routetest.Pod{}), c.decode)
			if v.Yes != (c.want == "") || v.Reason != c.want || v.CachedTokens != c.cached || v.Yes == (v.Words != "") {
				t.Errorf("%+v, want reason %q, cached %d", v, c.want, c.cached)
			}
		})
	}
}

// The old rule counts bytes, and takes what nobody told for not cached. The row takes one
// block off what matches, because the model was hashed as a block then; here it is not.
func TestThresholdRows(t *testing.T) {
	for _, c := range []struct {
		name             string
		threshold, bytes int
		decode           *route.ProfileResult
		want             bool
	}{
		{"0 is always", 0, 5, decoded(holds(9, 1)), true},
		{"0 is always, also without a prompt", 0, 0, decoded(), true},
		{"shorter than it", 100, 99, decoded(holds(0, 16)), false},
		{"as long as it", 100, 100, decoded(holds(0, 16)), true},
		{"enough is missing", 100, 356, decoded(holds(4, 16)), true},
		{"less is missing", 100, 355, decoded(holds(4, 16)), false},
		{"nobody tells", 100, 356, decoded(), true},
		{"more than there is", 1, 100, decoded(holds(4, 16)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := &route.Request{PromptTokens: uint32(c.bytes+3) / 4, Prompt: prompt(c.bytes)}
			if v := NewThreshold(c.threshold).Decide(routetest.Cycle(t, req, routetest.Pod{}), c.decode); v.Yes != c.want {
				t.Errorf("%+v, want %v", v, c.want)
			}
		})
	}
}

func TestDecidersByKind(t *testing.T) {
	for _, media := range []bool{false, true} {
		c := &route.Cycle{Request: &route.Request{Media: media}}
		if v := NewAlways("a").Decide(c, nil); !v.Yes {
			t.Errorf("always: %+v", v)
		}
		if v := NewAlwaysMedia("m").Decide(c, nil); v.Yes != media || v.Yes == (v.Reason == route.ReasonDeclined) {
			t.Errorf("media %v: %+v", media, v)
		}
	}
	for _, c := range []struct {
		d    Decider
		want bool
	}{{NewPrefixBased("d", 1, 0), true}, {NewPrefixBased("d", 0, 9), false}, {NewThreshold(1), true}, {NewThreshold(0), false}, {NewAlways("a"), false}, {nil, false}} {
		if got := GoesByPrefix(c.d); got != c.want {
			t.Errorf("%#v goes by the prefix: %v", c.d, got)
		}
	}
}

func BenchmarkPrefixBased(b *testing.B) {
	c := &route.Cycle{Request: &route.Request{PromptTokens: 4096}}
	d, res := NewPrefixBased("d", 512, 0), decoded(holds(10, 16))
	b.ReportAllocs()
	for b.Loop() {
		d.Decide(c, res)
	}
}
