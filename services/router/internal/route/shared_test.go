package route_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/pick"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// allRouters answers with the first of the ids that it holds least requests of.
type allRouters struct {
	counts   map[roster.ID]int64
	err      error
	asked    [][]roster.ID
	released int
}

func (a *allRouters) Reserve(_ context.Context, ids []roster.ID, limit int64, _ bool) (int, route.Place, error) {
	a.asked = append(a.asked, ids)
	if a.err != nil {
		return 0, nil, a.err
	}
	best := -1
	for i, id := range ids {
		if n := a.counts[id]; (limit == 0 || n < limit) && (best < 0 || n < a.counts[ids[best]]) {
			best = i
		}
	}
	if best < 0 {
		return 0, nil, fmt.Errorf("%w: all full", route.ErrShed)
	}
	a.counts[ids[best]]++
	return best, place{a}, nil
}

type place struct{ a *allRouters }

func (p place) Release() { p.a.released++ }

func sharedRig(t *testing.T, a *allRouters, cfg pick.GlobalLeastRequestConfig, f *fan, pods ...pod) *rig {
	t.Helper()
	weights := make([]float64, len(f.answers))
	for i := range weights {
		weights[i] = 1
	}
	return newRigDeps(t, route.Deps{Fan: f, Counts: a}, with{picker: pick.NewGlobalLeastRequest("global", cfg), scorers: scorers(weights...)}, pods...)
}

// idOf is the id of the endpoint that a test calls a, b, …
func idOf(name string) roster.ID { return roster.ID(fmt.Sprintf("pod-%04d", name[0]-'a')) }

func TestCountsOfAllRoutersDecide(t *testing.T) {
	glr := pick.GlobalLeastRequestConfig{}
	away := errors.New("redis is away")
	for _, c := range []struct {
		name    string
		counts  map[string]int64
		err     error
		cfg     pick.GlobalLeastRequestConfig
		scores  []float32 // of one scorer; nil: no scorer
		local   map[string]int
		want    string // endpoint, "" for an error
		wantErr error
		words   string
		asked   int
	}{
		{name: "A9 an endpoint that nobody counts stands at 0", counts: map[string]int64{"a": 5, "b": 5}, want: "c", words: pick.ByGlobal, asked: 3},
		{name: "they count, not what this router knows", counts: map[string]int64{"a": 5, "c": 5}, local: map[string]int{"b": 3}, want: "b", words: pick.ByGlobal, asked: 3},
		{name: "only the best scored are asked about", counts: map[string]int64{"a": 9, "b": 5}, scores: []float32{1, 1, .5}, want: "b", words: pick.ByGlobal, asked: 2},
		{name: "P13 a match wins whatever the load, as in the reference", counts: map[string]int64{"a": 500}, scores: []float32{1, 0, 0}, want: "a", words: pick.ByGlobal, asked: 1},
		{name: "P13 unless the load is weighed: the slack makes all equal", counts: map[string]int64{"a": 500, "b": 1}, scores: []float32{1, 0, 0}, cfg: pick.GlobalLeastRequestConfig{ScoreSlack: 1}, want: "c", words: pick.ByGlobal, asked: 3},
		{name: "B178 Redis away is not all zero: what this router knows", err: away, local: map[string]int{"a": 1, "b": 2}, want: "c", words: "not known now; " + pick.ByInFlight, asked: 3},
		{name: "A16 all full", counts: map[string]int64{"a": 2, "b": 2, "c": 3}, cfg: pick.GlobalLeastRequestConfig{Limit: 2}, wantErr: route.ErrShed, asked: 3},
		{name: "A16 all full that this router knows, Redis away", err: away, local: map[string]int{"a": 2, "b": 2, "c": 2}, cfg: pick.GlobalLeastRequestConfig{Limit: 2}, wantErr: route.ErrShed, asked: 3},
		{name: "A16 the best scored are full, others are not", counts: map[string]int64{"a": 2, "b": 1, "c": 0}, scores: []float32{1, .5, .5}, cfg: pick.GlobalLeastRequestConfig{Limit: 2}, want: "c", words: "those with the greatest total are full; " + pick.ByGlobal, asked: 1},
		{name: "ties by score", counts: map[string]int64{}, scores: []float32{.4, .6, .5}, cfg: pick.GlobalLeastRequestConfig{ScoreSlack: 1, ByScore: true}, want: "b", words: pick.ByGlobalScore, asked: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &allRouters{counts: map[roster.ID]int64{}, err: c.err}
			for name, n := range c.counts {
				a.counts[idOf(name)] = n
			}
			f := &fan{}
			if c.scores != nil {
				f.answers = append(f.answers, gives(c.scores...))
			}
			if c.cfg == (pick.GlobalLeastRequestConfig{}) {
				c.cfg = glr
			}
			g := sharedRig(t, a, c.cfg, f, pod{}, pod{}, pod{})
			n := uint64(0)
			for id, k := range c.local {
				for range k {
					n++
					g.r.Pick("another", n, idOf(id), 0, g.r.Now())
				}
			}
			d := g.Decide(t.Context(), &route.Request{Headers: route.NoHeaders{}})
			got := ""
			if d.Endpoint != nil {
				got = string("abc"[d.Endpoint.ID[len(d.Endpoint.ID)-1]-'0'])
			}
			if got != c.want || !errors.Is(d.Err, c.wantErr) {
				t.Fatalf("picked %q, %v; want %q, %v", got, d.Err, c.want, c.wantErr)
			}
			if len(a.asked) == 0 || len(a.asked[0]) != c.asked {
				t.Errorf("asked %v, want about %d endpoints", a.asked, c.asked)
			}
			if c.want == "" {
				return
			}
			if tie := d.Results[0].TieBreak; !strings.HasSuffix(tie, c.words) {
				t.Errorf("tie break %q, want %q", tie, c.words)
			}
			if (d.Results[0].Place != nil) != (c.err == nil) {
				t.Errorf("place %v with the error %v", d.Results[0].Place, c.err)
			}
			if len(d.Fallbacks) != 2 && c.cfg.Limit == 0 {
				t.Errorf("%d fall-backs", len(d.Fallbacks))
			}
			for _, e := range d.Fallbacks {
				if e.ID == d.Endpoint.ID {
					t.Error("the pick is a fall-back of its own")
				}
			}
		})
	}
}

func TestExplainAsksForNoCounts(t *testing.T) {
	a := &allRouters{counts: map[roster.ID]int64{}}
	g := sharedRig(t, a, pick.GlobalLeastRequestConfig{}, &fan{}, pod{}, pod{})
	d := g.Explain(t.Context(), &route.Request{Headers: route.NoHeaders{}})
	if d.Endpoint == nil || len(a.asked) != 0 || !strings.Contains(d.Results[0].TieBreak, "not asked for here") {
		t.Errorf("picked %v, asked %v, %q", d.Endpoint, a.asked, d.Results[0].TieBreak)
	}
}

func TestWithoutTimeNobodyIsAsked(t *testing.T) {
	a := &allRouters{counts: map[roster.ID]int64{}}
	g := sharedRig(t, a, pick.GlobalLeastRequestConfig{}, &fan{}, pod{}, pod{})
	d := g.Decide(t.Context(), &route.Request{Headers: route.NoHeaders{}, Deadline: time.Now()})
	if d.Endpoint == nil || len(a.asked) != 0 || !strings.Contains(d.Results[0].TieBreak, "no time") {
		t.Errorf("picked %v, asked %v, %q", d.Endpoint, a.asked, d.Results[0].TieBreak)
	}
	d = g.Decide(t.Context(), &route.Request{Headers: route.NoHeaders{}, Deadline: time.Now().Add(time.Minute)})
	if d.Endpoint == nil || len(a.asked) != 1 {
		t.Errorf("picked %v, asked %v", d.Endpoint, a.asked)
	}
}

// Of a great pool those are asked about that look least loaded; chance decides who is.
func TestOfManyTheLeastLoadedAreAskedAbout(t *testing.T) {
	a := &allRouters{counts: map[roster.ID]int64{}}
	pods := make([]pod, 300)
	for i := 0; i < len(pods); i += 2 {
		pods[i].InFlight = 3
	}
	g := sharedRig(t, a, pick.GlobalLeastRequestConfig{}, &fan{}, pods...)
	seen := map[roster.ID]int{}
	const rounds = 40
	for range rounds {
		d := g.Decide(t.Context(), &route.Request{Headers: route.NoHeaders{}})
		d.Reservation.Finish(true, route.NoUsage())
	}
	for _, ids := range a.asked {
		if len(ids) != 128 {
			t.Fatalf("asked about %d", len(ids))
		}
		for _, id := range ids {
			seen[id]++
			if (id[len(id)-1]-'0')%2 == 0 {
				t.Fatalf("asked about %s, which is busy", id)
			}
		}
	}
	if len(seen) != 150 {
		t.Errorf("asked about %d of the 150 idle ones in %d rounds", len(seen), rounds)
	}
}
