package memory

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

var roughly = cmpopts.EquateApprox(0, 1e-6)

func TestCacheByTable(t *testing.T) {
	cases := map[string]struct {
		usage     []float32
		ages      []time.Duration
		positions []uint32
		want      []float32 // -1: abstained
		reason    scorerv1.AbstainReason
		age       time.Duration
	}{
		"F3":                {usage: []float32{.8, .5, 0}, want: []float32{.2, .5, 1}},
		"F4, equal":         {usage: []float32{.6, .6}, want: []float32{.4, .4}},
		"F4, empty":         {usage: []float32{0, 0}, want: []float32{1, 1}},
		"F4, full":          {usage: []float32{1, .5}, want: []float32{0, .5}},
		"M11, kept in 0..1": {usage: []float32{1.2, 1.0 / 3}, want: []float32{0, 2.0 / 3}},
		"M11, below zero is not known": {
			usage: []float32{-.1, 1.0 / 3}, want: []float32{-1, 2.0 / 3}, reason: unknown,
		},
		"M18 kv part":                      {usage: []float32{.2, .1, .2}, want: []float32{.8, .9, .8}},
		"B134: the difference still shows": {usage: []float32{.88, .90, .92}, want: []float32{.12, .10, .08}},
		"some of the table":                {usage: []float32{.1, .2, .3, .4}, positions: []uint32{1, 3}, want: []float32{.8, .6}},
		"never scraped": {
			usage: []float32{.5, .5}, ages: []time.Duration{-1, time.Second}, want: []float32{-1, .5}, reason: unknown, age: time.Second,
		},
		"stale": {
			usage: []float32{.5, .5, .5}, ages: []time.Duration{limit + time.Millisecond, 2 * time.Second, time.Second},
			want: []float32{-1, .5, .5}, reason: stale, age: 2 * time.Second,
		},
		"nothing is known": {usage: nil, want: []float32{-1, -1}, reason: unknown},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, max(len(c.usage), 2))
			p.load(c.usage, nil, c.ages...)
			got := score(t, p.cache, p.of(c.positions...))
			if diff := cmp.Diff(c.want, byCandidate(got, len(c.want)), roughly); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
			if got.GetAbstainReason() != c.reason || got.GetStateAge().AsDuration() != c.age {
				t.Errorf("reason %v and age %v, want %v and %v", got.GetAbstainReason(), got.GetStateAge().AsDuration(), c.reason, c.age)
			}
			n := 0
			for _, s := range c.want {
				if s < 0 {
					n++
				}
			}
			if p.abstained[c.reason] != n {
				t.Errorf("reported abstentions %v, want %d", p.abstained, n)
			}
		})
	}
}

// What was picked since the scrape takes blocks: 16 tokens each, rounded up per
// endpoint, of 100.
func TestCacheCredits(t *testing.T) {
	p := newPool(t, 4)
	p.load([]float32{.4, .4, .95, .4}, nil)
	for i := range uint64(2) {
		p.r.Pick("router-1", 1+i, id(0), 8, p.now) // 16 tokens: 1 block
	}
	p.r.Pick("router-1", 3, id(1), 161, p.now)   // 11 blocks
	p.r.Pick("router-1", 4, id(2), 5000, p.now)  // more than there is
	p.r.Pick("router-1", 5, id(3), 16000, p.now) // does not tell how many blocks it has
	if diff := cmp.Diff([]float32{.59, .49, 0, .6}, score(t, p.cache, p.of()).GetScores(), roughly); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
	// The router's own picks that have not arrived yet add to the same tokens before
	// they are rounded up.
	p.r.Applied("router-1", 6)
	req := p.of(0, 1, 3)
	req.Pending = &scorerv1.PendingPicks{
		RouterId: "router-1", Sequences: []uint64{6, 7, 7, 8}, Positions: []uint32{0, 0, 1, 2}, UncachedTokenCounts: []uint32{9999, 1, 15, 7},
	}
	got := score(t, p.cache, req)
	if diff := cmp.Diff([]float32{.58, .49, .6}, got.GetScores(), roughly); diff != "" {
		t.Errorf("scores with pending picks (-want +got):\n%s", diff)
	}
	if got.GetAppliedOutcomeSequence() != 6 {
		t.Errorf("applied %d, want 6", got.GetAppliedOutcomeSequence())
	}
}

func TestCacheByList(t *testing.T) {
	p := newPool(t, 3)
	p.load([]float32{.3, .9, .9}, nil)
	p.r.Pick("router-1", 1, id(0), 16, p.now)
	load := func(usage float32, tokens uint32, age time.Duration) *scorerv1.EndpointLoad {
		return &scorerv1.EndpointLoad{KvCacheUsageRatio: proto.Float32(usage), CreditedTokenCount: tokens, ObserveTime: timestamppb.New(time.Now().Add(-age))}
	}
	got := score(t, p.cache, listed(
		&scorerv1.Candidate{EndpointId: "stranger-1", Load: load(.25, 5000, 0)},         // its blocks are not known
		&scorerv1.Candidate{EndpointId: string(id(1)), Load: load(.25, 17, -time.Hour)}, // its blocks are: 2
		&scorerv1.Candidate{EndpointId: string(id(0))},                                  // all from the broadcast
		&scorerv1.Candidate{EndpointId: "stranger-2", Load: load(.25, 0, time.Minute)},  // stale
		&scorerv1.Candidate{EndpointId: "stranger-3", Load: &scorerv1.EndpointLoad{}},   // not known
		&scorerv1.Candidate{EndpointId: "stranger-4"},                                   // not known
	))
	if diff := cmp.Diff([]float32{.75, .73, .69, -1, -1, -1}, byCandidate(got, 6), roughly); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
	if got.GetAbstainReason() != stale {
		t.Errorf("reason %v", got.GetAbstainReason())
	}
}

func TestCacheExplains(t *testing.T) {
	p := newPool(t, 3)
	p.load([]float32{.41, -1, .5}, nil, 0, 0, 7*time.Second)
	p.r.Pick("router-1", 1, id(0), 20, p.now)
	req := p.of()
	req.Explain = true
	var got []string
	for _, e := range score(t, p.cache, req).GetExplanations() {
		got = append(got, e.GetText())
	}
	if diff := cmp.Diff([]string{"0.41 used + 0.02 credited", "KV-cache usage not known", "figures are 7s old"}, got); diff != "" {
		t.Errorf("explanations (-want +got):\n%s", diff)
	}
}

func TestTableThatIsNotHeld(t *testing.T) {
	p := newPool(t, 3)
	var e *scorer.Error
	for name, c := range map[string]struct {
		ref  *scorerv1.TableReference
		want string
	}{
		"unknown digest":            {&scorerv1.TableReference{TableDigest: 42}, scorer.ReasonTableNotHeld},
		"position beyond the table": {&scorerv1.TableReference{TableDigest: p.table.Digest, Positions: []uint32{0, 3}}, scorer.ReasonInvalidRequest},
	} {
		req := &scorerv1.ScoreRequest{Candidates: &scorerv1.ScoreRequest_Table{Table: c.ref}}
		for _, typ := range []scorer.Type{p.cache, p.lora} {
			if err := typ.Score(context.Background(), nil, req, &scorerv1.ScoreResponse{}); !errors.As(err, &e) || e.Reason != c.want {
				t.Errorf("%s, %s: error %v, want %s", typ.Info().GetName(), name, err, c.want)
			}
		}
	}
}

func TestParameters(t *testing.T) {
	p := newPool(t, 1)
	for text, want := range map[string][]string{"": nil, "{}": nil, `{"threshold": 5, "Max": 1}`: {"Max", "threshold"}, "[]": {""}} {
		for _, typ := range []scorer.Type{p.cache, p.lora} {
			_, _, faults := typ.Parse([]byte(text))
			var got []string
			for _, f := range faults {
				got = append(got, f.GetKey())
				if f.GetMessage() == "" {
					t.Errorf("%s: a fault without a message", text)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: keys at fault (-want +got):\n%s", text, diff)
			}
		}
	}
}
