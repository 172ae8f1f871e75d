package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/workload"
)

// apart is a fleet of 3 whose last engine prefills what decide says.
func apart(decide func(prompt, cached int) bool) *Scored {
	return NewScored(ScoredConfig{Prefix: 2, Requests: 1, Tokens: 1, Prefillers: 1, Decide: decide})
}

func three() Config {
	cfg := DefaultConfig()
	cfg.Engines, cfg.KeepGaps = 3, true
	return cfg
}

func TestPromptsGoFromEngineToEngine(t *testing.T) {
	always := func(int, int) bool { return true }
	report := run(t, three(), sessions(40), apart(always))
	whole := run(t, three(), sessions(40), NewScored(ScoredConfig{Prefix: 2, Requests: 1, Tokens: 1}))
	if len(report.Results) != len(whole.Results) {
		t.Errorf("%d results, want %d", len(report.Results), len(whole.Results))
	}
	for _, r := range report.Results {
		if r.Prefill != 2 || r.Engine == 2 || r.Reason != engine.Length || len(r.Gaps) != r.Tokens-1 {
			t.Fatalf("request %d: engine %d, prefill %d, ended with %v, %d gaps for %d tokens", r.Number, r.Engine, r.Prefill, r.Reason, len(r.Gaps), r.Tokens)
		}
		if r.Timing.Cached != r.Timing.Prompt-1 || r.Timing.FirstToken <= r.Timing.Submitted {
			t.Fatalf("request %d: %+v", r.Number, r.Timing)
		}
	}
	for i, s := range report.Engines {
		if s.BlocksUsed+s.Held+s.Fetching+s.Running+s.Waiting != 0 {
			t.Errorf("engine %d at the end: %+v", i, s)
		}
	}
	if p, d := report.Engines[2], report.Engines[0]; p.GenerationTokens != uint64(len(report.Results)) || d.PrefillTokens >= d.Submitted*2 {
		t.Errorf("the prefill engine generated %d tokens for %d prompts, a decode engine computed %d tokens of %d", p.GenerationTokens, len(report.Results), d.PrefillTokens, d.Submitted)
	}
}

func TestOnlyWhatIsDecided(t *testing.T) {
	asked := 0
	report := run(t, three(), sessions(40), apart(func(prompt, cached int) bool {
		asked++
		if cached > prompt {
			t.Errorf("%d of %d tokens are cached", cached, prompt)
		}
		return prompt-cached >= 800
	}))
	there := 0
	for _, r := range report.Results {
		if r.Prefill == 2 {
			there++
		} else if r.Prefill != -1 {
			t.Errorf("prefill %d", r.Prefill)
		}
	}
	if asked != len(report.Results) || there == 0 || there == asked {
		t.Errorf("%d of %d requests were taken apart, %d decisions", there, len(report.Results), asked)
	}
	again := run(t, three(), sessions(40), apart(func(prompt, cached int) bool { return prompt-cached >= 800 }))
	if diff := cmp.Diff(report, again); diff != "" {
		t.Errorf("two runs differ:\n%s", diff)
	}
}

// A link sends one prompt at a time.
func TestTransfersTakeTurns(t *testing.T) {
	work := sessions(2)
	work.SessionRate, work.Turns, work.SystemPrompts = 0, workload.Always(1), 0
	work.FirstTokens, work.AnswerTokens = workload.Always(100), workload.Always(1)
	cfg := three()
	cfg.TransferBase, cfg.TransferRate = time.Second, 1000
	report := run(t, cfg, work, apart(func(int, int) bool { return true }))
	first, second := report.Results[0].Timing, report.Results[1].Timing
	if gap := second.Admitted - first.Admitted; gap < time.Second || gap > 1200*time.Millisecond {
		t.Errorf("the second prompt arrives %v after the first, want 1 s and some", gap)
	}
}

func TestAPromptTooLongForThePrefillEngine(t *testing.T) {
	cfg := three()
	cfg.Engine.MaxModelLen = 50
	p := apart(func(int, int) bool { return true })
	report := run(t, cfg, sessions(3), p)
	if len(report.Results) != 3 || report.Results[0].Reason != engine.TooLong {
		t.Errorf("%+v", report.Results)
	}
	for i, s := range p.states {
		if s.requests != 0 || s.tokens != 0 {
			t.Errorf("engine %d is believed to have %d requests, %d tokens", i, s.requests, s.tokens)
		}
	}
}

// itself sends prompts to the engine that answers.
type itself struct{ *Scored }

func (itself) Prefill(_ time.Duration, _ Request, decode int, _ []engine.Stats) (int, bool) {
	return decode, true
}

func TestAPrefillEngineThatDecodes(t *testing.T) {
	f, _ := New(three())
	g, _ := workload.New(sessions(1))
	if _, err := f.Run(g, itself{apart(nil)}); err == nil || !strings.Contains(err.Error(), "picked engine") {
		t.Errorf("error %v", err)
	}
}
