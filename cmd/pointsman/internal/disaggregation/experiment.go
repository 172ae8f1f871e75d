package disaggregation

import (
	"fmt"
	"slices"
	"time"

	router "github.com/pointsman/pointsman/services/router/app"
	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/fleet"
	"github.com/pointsman/pointsman/sim/workload"
)

// servers is how many engines every fleet has.
const servers = 8

// share is how much of what the aggregated fleet can do is asked of all.
const share = 0.8

// Never and Always are thresholds beyond those of the decider.
const (
	Never  = 0
	Always = -1
)

// setup is one fleet to be measured.
type setup struct {
	prefillers int // of the servers; 0 is the aggregated fleet
	threshold  int // nonCachedTokens, Never or Always
}

// model is an engine with an 8B model on a GPU of 80 GB; docs/bench/disaggregation.md says where the figures come from.
func model() engine.Config {
	cfg := engine.DefaultConfig()
	cfg.NumBlocks = 27_000
	cfg.StepPerContextToken = 64 * time.Nanosecond
	return cfg
}

// policy routes to the fleet that s describes.
func (s setup) policy() *fleet.Scored {
	cfg := fleet.ScoredConfig{Prefix: 2, Requests: 1, Tokens: 1, Prefillers: s.prefillers}
	if s.prefillers > 0 {
		cfg.Decide = decide(s.threshold)
	}
	return fleet.NewScored(cfg)
}

// decide is the router's own decider.
func decide(threshold int) func(prompt, cached int) bool {
	if threshold == Always {
		return func(int, int) bool { return true }
	}
	d := router.PrefixDecider(threshold, 0)
	return func(prompt, cached int) bool { return d(prompt, cached/16) }
}

// figures are what is measured.
type figures struct {
	rate                         float64 // requests per second
	disaggregated                float64 // share of the requests that were
	computed                     float64 // share of prompt tokens that some engine computed; above 1 if some were computed twice
	ttft50, ttft99, itl50, itl99 time.Duration
	e2e50, e2e99                 time.Duration
	prompt, answer               float64 // mean tokens
}

// run puts a workload to a fleet.
func run(s setup, work workload.Config) (*fleet.Report, error) {
	cfg := fleet.DefaultConfig()
	cfg.Engines, cfg.Engine, cfg.KeepGaps = servers, model(), true
	f, err := fleet.New(cfg)
	if err != nil {
		return nil, err
	}
	g, err := workload.New(work)
	if err != nil {
		return nil, err
	}
	r, err := f.Run(g, s.policy())
	if err != nil {
		return nil, fmt.Errorf("%+v: %w", s, err)
	}
	return r, nil
}

// capacity is how many requests a second the fleet answers when there are always more than it can take: all are sent at
// once, and the time is counted that engines are busy, which leaves out how unevenly they end.
func capacity(s setup, work workload.Config) (float64, error) {
	work.SessionRate = 0
	r, err := run(s, work)
	if err != nil {
		return 0, err
	}
	var busy time.Duration
	for _, e := range r.Engines {
		busy += e.Busy
	}
	return float64(len(r.Results)*servers) / busy.Seconds(), nil
}

// measure is what requests see that come at the rate. The first and the last fifth of them are left out, because the fleet
// fills and empties then.
func measure(s setup, work workload.Config, rate float64) (figures, error) {
	work.SessionRate = rate / work.Turns.Mean()
	r, err := run(s, work)
	if err != nil {
		return figures{}, err
	}
	results := slices.Clone(r.Results)
	slices.SortFunc(results, func(a, b fleet.Result) int { return a.Number - b.Number })
	results = results[len(results)/5 : len(results)*4/5]
	var ttft, gaps, e2e []time.Duration
	f := figures{computed: computed(r)}
	for _, x := range results {
		ttft = append(ttft, x.Timing.FirstToken-x.Timing.Submitted)
		e2e = append(e2e, x.Timing.Ended-x.Timing.Submitted)
		gaps = append(gaps, x.Gaps...)
		if x.Prefill >= 0 {
			f.disaggregated++
		}
		f.prompt += float64(x.Timing.Prompt)
		f.answer += float64(x.Tokens)
	}
	n := float64(len(results))
	f.disaggregated, f.prompt, f.answer = f.disaggregated/n, f.prompt/n, f.answer/n
	f.rate = n / (results[len(results)-1].Timing.Submitted - results[0].Timing.Submitted).Seconds()
	f.ttft50, f.ttft99 = quantiles(ttft)
	f.itl50, f.itl99 = quantiles(gaps)
	f.e2e50, f.e2e99 = quantiles(e2e)
	return f, nil
}

// computed is the share of all prompt tokens that engines computed.
func computed(r *fleet.Report) float64 {
	var done, all float64
	for _, e := range r.Engines {
		done += float64(e.PrefillTokens)
	}
	for _, x := range r.Results {
		all += float64(x.Timing.Prompt)
	}
	return done / all
}

// quantiles are the median and the 99th of a hundred.
func quantiles(d []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(d)
	return d[len(d)/2], d[len(d)*99/100]
}

// cold is 5,000 tokens in and 250 out, all prompts different.
func cold(n int) workload.Config {
	w := workload.DefaultConfig()
	w.Sessions, w.SystemPrompts, w.Turns = n, 0, workload.Always(1)
	w.FirstTokens, w.AnswerTokens = workload.Always(5000), workload.Always(250)
	return w
}

// talks are conversations: a system prompt that others have too, a document or a short text to begin with, and questions
// about it, of which each prompt holds all that was said before.
func talks(n int) workload.Config {
	w := workload.DefaultConfig()
	w.Sessions, w.SystemPrompts, w.SystemTokens = n, 8, workload.Always(1000)
	w.Turns, w.ThinkSeconds = workload.Quantiles{{P: 0, Value: 1}, {P: 0.5, Value: 3}, {P: 1, Value: 6}}, workload.Between(1, 5)
	w.FirstTokens = workload.Quantiles{{P: 0, Value: 50}, {P: 0.3, Value: 500}, {P: 0.6, Value: 3000}, {P: 0.9, Value: 9000}, {P: 1, Value: 12000}}
	w.TurnTokens = workload.Quantiles{{P: 0, Value: 20}, {P: 0.6, Value: 100}, {P: 0.9, Value: 1500}, {P: 1, Value: 4000}}
	w.AnswerTokens = workload.Quantiles{{P: 0, Value: 50}, {P: 0.5, Value: 220}, {P: 1, Value: 600}}
	return w
}
