package feed

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/internal/kit/bus"
	told "github.com/pointsman/pointsman/internal/kit/outcomes"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/audit"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

// noContext is for instruments, which take nothing from it.
var noContext = context.Background()

// tellPause is between two log lines about lost caches.
const tellPause = time.Minute

// outcomes compares what was believed of picks with what came of them.
type outcomes struct {
	feed   *Feed
	picks  picks
	judge  *audit.Judge
	rates  audit.Rates
	served func(k index.Key, endpoint string, chain []uint64) // nil: nobody wants to know
	quiet  atomic.Int64                                       // until when nothing is logged of lost caches, Unix nanoseconds

	compared map[audit.Verdict]metric.AddOption
	verdicts metric.Int64Counter
	losses   metric.Int64Counter

	unfollowed metric.Int64Counter
}

// Why a placement is not followed.
var (
	manyPicks  = metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", "picks")))
	manyHashes = metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", "hashes")))
)

func (o *outcomes) instruments(m metric.Meter) error {
	var err error
	if o.verdicts, err = m.Int64Counter("pointsman_prefix_indexer_compared_picks_total",
		metric.WithDescription("Placements whose engine reported cached tokens, by what that says of the index: agrees, contradicts, unclear.")); err != nil {
		return err
	}
	o.compared = make(map[audit.Verdict]metric.AddOption)
	for _, v := range []audit.Verdict{audit.Agrees, audit.Contradicts, audit.Unclear} {
		o.compared[v] = metric.WithAttributeSet(attribute.NewSet(attribute.String("result", string(v))))
	}
	if o.losses, err = m.Int64Counter("pointsman_prefix_indexer_lost_caches_total",
		metric.WithDescription("Times that an endpoint was found to have lost what it was sent, by what its engine reports.")); err != nil {
		return err
	}
	if o.unfollowed, err = m.Int64Counter("pointsman_prefix_indexer_unfollowed_placements_total",
		metric.WithDescription("Placements whose end is not followed, because too many picks are open, or not told to the store, because their chains have too many hashes.")); err != nil {
		return err
	}
	return o.showRates(m)
}

func (o *outcomes) showRates(m metric.Meter) error {
	tokens, err := m.Int64ObservableCounter("pointsman_prefix_indexer_reported_tokens_total",
		metric.WithDescription("Prompt tokens of requests whose engine reports cached ones: prompt, cached as reported, believed to be cached."))
	if err != nil {
		return err
	}
	under, err := m.Int64ObservableGauge("pointsman_prefix_indexer_underestimated",
		metric.WithDescription("1 while engines report far more cached tokens than the index believes."))
	if err != nil {
		return err
	}
	of := func(what string) metric.ObserveOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String("of", what)))
	}
	prompt, cached, believed := of("prompt"), of("cached"), of("believed")
	_, err = m.RegisterCallback(func(_ context.Context, ob metric.Observer) error {
		t := o.rates.Totals()
		ob.ObserveInt64(tokens, t.Prompt, prompt)
		ob.ObserveInt64(tokens, t.Cached, cached)
		ob.ObserveInt64(tokens, t.Believed, believed)
		if t.Underestimated {
			ob.ObserveInt64(under, 1)
		} else {
			ob.ObserveInt64(under, 0)
		}
		return nil
	}, tokens, under)
	return err
}

// hear takes what a router says of its picks.
func (o *outcomes) hear(m *told.Batch, _ bus.Meta) {
	router, now := m.GetStamp().GetPublisherId(), time.Now()
	for i := range m.Events {
		e := &m.Events[i]
		id := pickID{router, e.PickID}
		switch e.Kind {
		case told.Picked:
			o.picks.estimate(id, now, e.PromptTokens)
		case told.FirstToken:
			o.computed(o.picks.claims(id))
		case told.Finished:
			if !e.Completed {
				o.picks.end(id, now, nil)
				continue
			}
			u := usage{prompt: e.ReportedTokens, cached: e.ReportedCachedTokens}
			if p := o.picks.end(id, now, &u); p != nil {
				o.finish(p, u, now)
			}
		}
	}
	if m.Leaving {
		o.picks.leave(router)
	}
}

// claim notes what was believed of a pick.
func (o *outcomes) claim(id pickID, now time.Time, c audit.Claim, chain []uint64) {
	switch followed, kept := o.picks.claim(id, now, c, chain); {
	case !followed:
		o.unfollowed.Add(noContext, 1, manyPicks)
	case !kept:
		o.unfollowed.Add(noContext, 1, manyHashes)
	}
}

func (o *outcomes) computed(claims []audit.Claim) {
	for i := range claims {
		o.judge.Computed(&claims[i])
	}
}

// finish compares what the engine reports of a request that was answered in full with
// what was believed.
func (o *outcomes) finish(p *pick, u usage, now time.Time) {
	o.computed(p.claims)
	for i, chain := range p.chains {
		if len(chain) > 0 {
			o.served(p.claims[i].Key, p.claims[i].Endpoint, chain)
		}
	}
	if u.cached < 0 || u.prompt <= 0 || p.estimated == 0 || len(p.claims) == 0 {
		return
	}
	r := audit.Report{PromptTokens: uint32(u.prompt), CachedTokens: uint32(u.cached), EstimatedTokens: p.estimated} //nolint:gosec // read as such
	best := 0.0
	for i := range p.claims {
		c := &p.claims[i]
		share, _ := c.Share(p.estimated)
		best = max(best, share)
		verdict, upTo := o.judge.Compare(c, r, now)
		o.verdicts.Add(noContext, 1, o.compared[verdict])
		if upTo != 0 {
			o.forget(c, upTo, now)
		}
	}
	if o.judge.Tells(p.claims[0].Endpoint) {
		o.rate(r, best)
	}
}

// forget lets go of what an endpoint has lost.
func (o *outcomes) forget(c *audit.Claim, upTo index.Mark, now time.Time) {
	n := o.feed.index.Forget(c.Key, c.Endpoint, upTo)
	o.losses.Add(noContext, 1)
	until := o.quiet.Load()
	if now.UnixNano() < until || !o.quiet.CompareAndSwap(until, now.Add(tellPause).UnixNano()) {
		return
	}
	o.feed.log.Info("an engine reports that it no longer holds what it was sent; forgot what is as old",
		"endpoint", c.Endpoint, "blocks", n, "block_bytes", c.Key.BlockSize)
}

// rate tells when engines begin or cease to find far more than is believed.
func (o *outcomes) rate(r audit.Report, share float64) {
	changed, under, cached, believed := o.rates.Add(r, share)
	switch {
	case changed && under:
		o.feed.log.Warn("engines find far more of prompts in their caches than the index believes: "+
			"is the block size right (autoTune), lruCapacityPerServer as large as their caches, maxPrefixBlocksToMatch as long as prompts?",
			"cached_share", cached, "believed_share", believed)
	case changed:
		o.feed.log.Info("engines no longer find far more of prompts in their caches than the index believes", "cached_share", cached, "believed_share", believed)
	}
}

// keep forgets all endpoints but these.
func (o *outcomes) keep(endpoints []string) { o.judge.Keep(endpoints) }

func (o *outcomes) sweep(now time.Time) {
	o.picks.sweep(now)
	o.judge.Sweep(now)
}
