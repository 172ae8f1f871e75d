package filter

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

// said returns what a prefix scorer says that found these percents of 100 blocks.
func said(percent ...uint32) route.Said {
	return route.Said{
		Candidates: routetest.Positions(len(percent)),
		Scores:     []route.Scores{{Verdict: route.Scored}, {Verdict: route.Scored, Matched: percent, Blocks: 100}},
	}
}

// Rows E18 to E24. Times to first token are made by tokens in flight: at 1000 tokens
// per second, one token is one millisecond.
func TestAffinityFilter(t *testing.T) {
	with := func(change func(*AffinityConfig)) AffinityConfig {
		cfg := DefaultAffinityConfig()
		cfg.Exploration, cfg.TokensPerSecond = 0, 1000
		change(&cfg)
		return cfg
	}
	usual := with(func(*AffinityConfig) {})
	for _, c := range []struct {
		name   string
		cfg    AffinityConfig
		said   route.Said
		ttft   []uint32 // ms
		tokens uint32   // of the request
		want   []int32
	}{
		{"E18", with(func(c *AffinityConfig) { c.Threshold = 0 }), said(10, 20, 50), nil, 0, []int32{0, 1, 2}},
		{"E20", usual, said(10, 20, 50), nil, 0, []int32{0, 1, 2}},
		{"E21", usual, said(90, 85, 10), []uint32{100, 120, 50}, 0, []int32{0, 1}},
		{"E22 much slower", usual, said(90, 85, 10), []uint32{6000, 5100, 50}, 0, []int32{0, 1, 2}},
		{"as slow as is allowed", usual, said(90, 85, 10), []uint32{6000, 5050, 50}, 0, []int32{0, 1}},
		{"any penalty is allowed", with(func(c *AffinityConfig) { c.MaxPenaltyMS = 0 }), said(90, 85, 10), []uint32{60000, 50000, 0}, 0, []int32{0, 1}},
		{"what it need not prefill counts", usual, said(100, 0), []uint32{9000, 0}, 8000, []int32{0}},
		{"E23", with(func(c *AffinityConfig) { c.Exploration = 1 }), said(90, 85, 10), nil, 0, []int32{0, 1, 2}},
		{"at the threshold", usual, said(80, 79), nil, 0, []int32{0}},
		{"nothing was said", usual, route.Said{Candidates: []int32{0, 1}, Scores: []route.Scores{{Verdict: route.Failed}}}, nil, 0, []int32{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := routetest.Roster(t, make([]pod, len(c.said.Candidates))...)
			s := r.Snapshot()
			for i, ms := range c.ttft {
				r.Pick("test", uint64(i), s.Table.Endpoints[i].ID, ms, r.Now())
			}
			cycle := &route.Cycle{Request: &route.Request{PromptTokens: c.tokens}, Snapshot: s, Now: r.Now(), Rand: func(int) int { return 1 << 20 }}
			got := must(NewAffinity("a", c.cfg)).FilterScored(cycle, c.said, routetest.Positions(len(c.said.Candidates)))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestE24AffinityFaults(t *testing.T) {
	_, err := NewAffinity("a", AffinityConfig{Threshold: 1.5, Exploration: -.1, MaxPenaltyMS: -1})
	for _, want := range []string{"affinityThreshold must be <= 1.0", "explorationProbability must be in [0, 1]", "maxTTFTPenaltyMs", "prefillTokensPerSecond"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
