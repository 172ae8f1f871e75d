package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// small is an engine whose times are easy to reckon: 1 ms a prefill token, 10 ms a step, 1 ms a decoding request.
func small() Config {
	return Config{
		BlockSize: 4, NumBlocks: 16, MaxRunning: 4, MaxStepTokens: 32, PrefillRate: 1000,
		StepBase: 10 * time.Millisecond, StepPerRequest: time.Millisecond, AdapterLoad: 5 * time.Millisecond,
	}
}

func mustNew(t testing.TB, cfg Config) *Engine {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// tokens returns n tokens that no other first yields.
func tokens(first, n int) []Token {
	out := make([]Token, n)
	for i := range out {
		out[i] = Token(first + i)
	}
	return out
}

// drain runs e until it is idle and returns all events.
func drain(t testing.TB, e *Engine) []Event {
	t.Helper()
	var all []Event
	for range 100_000 {
		at, ok := e.Next()
		if !ok {
			return all
		}
		all = append(all, slices.Clone(e.Advance(at))...)
	}
	t.Fatal("the engine does not come to rest")
	return nil
}

const ms = time.Millisecond

func TestOneRequest(t *testing.T) {
	e := mustNew(t, small())
	id := e.Submit(5*ms, Request{Prompt: tokens(0, 10), Output: tokens(100, 3)})
	got := drain(t, e)
	want := []Event{
		{At: 5 * ms, ID: id, Kind: Admitted},
		{At: 25 * ms, ID: id, Kind: FirstToken, Tokens: 1, Since: 20 * ms}, // 10 + 10 tokens
		{At: 36 * ms, ID: id, Kind: NextToken, Tokens: 2, Since: 11 * ms},  // 10 + 1 decoding
		{At: 47 * ms, ID: id, Kind: NextToken, Tokens: 3, Since: 11 * ms},
		{At: 47 * ms, ID: id, Kind: Finished, Reason: Stop, Tokens: 3, Since: 42 * ms,
			Timing: &Timing{Submitted: 5 * ms, Admitted: 5 * ms, FirstToken: 25 * ms, Ended: 47 * ms, Prompt: 10}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	wantStats := Stats{
		At: 47 * ms, BlocksTotal: 16, PrefixQueries: 10, PromptTokens: 10, PrefillTokens: 10, GenerationTokens: 3,
		Submitted: 1, Steps: 3, Busy: 42 * ms,
	}
	wantStats.Ended[Stop] = 1
	if diff := cmp.Diff(wantStats, e.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func TestEndings(t *testing.T) {
	for _, c := range []struct {
		name   string
		output int
		limit  int
		tokens int
		reason Reason
	}{
		{"the answer is shorter than the cap", 3, 5, 3, Stop},
		{"the answer just meets the cap", 3, 3, 3, Length},
		{"the cap cuts the answer", 3, 1, 1, Length},
		{"no cap", 3, 0, 3, Stop},
		{"no answer, as embeddings", 0, 0, 0, Stop},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := mustNew(t, small())
			e.Submit(0, Request{Prompt: tokens(0, 5), Output: tokens(50, c.output), MaxTokens: c.limit})
			events := drain(t, e)
			last := events[len(events)-1]
			if last.Kind != Finished || last.Reason != c.reason || last.Tokens != c.tokens {
				t.Errorf("ended with %v %v after %d tokens, want finished %v after %d", last.Kind, last.Reason, last.Tokens, c.reason, c.tokens)
			}
			if got := e.Stats().PromptTokens; got != 5 {
				t.Errorf("prompt tokens %d, want 5", got)
			}
		})
	}
}

func TestSecondTurnIsFaster(t *testing.T) {
	e := mustNew(t, small())
	first, answer := tokens(0, 16), tokens(100, 5)
	e.Submit(0, Request{Prompt: first, Output: answer})
	drain(t, e)
	second := slices.Concat(first, answer, tokens(200, 3)) // 24 tokens
	start := e.Stats().At
	e.Submit(start, Request{Prompt: second, Output: answer})
	events := drain(t, e)
	// 16 prompt tokens and 4 of the answer's 5 fill whole computed blocks: 5 blocks of 4.
	if events[0].Kind != Admitted || events[0].Tokens != 20 {
		t.Fatalf("first event %+v, want admission with 20 cached tokens", events[0])
	}
	if got, want := events[1].Since, 14*ms; events[1].Kind != FirstToken || got != want {
		t.Errorf("time to first token %v, want %v (10 ms and 4 tokens)", got, want)
	}
	if s := e.Stats(); s.PrefixQueries != 40 || s.PrefixHits != 20 || s.PrefillTokens != 20 {
		t.Errorf("queries %d hits %d computed %d, want 40, 20, 20", s.PrefixQueries, s.PrefixHits, s.PrefillTokens)
	}
}

func TestPrefixCacheMisses(t *testing.T) {
	base := Request{Prompt: tokens(0, 12), Output: tokens(90, 1)}
	for _, c := range []struct {
		name   string
		change func(*Config, *Engine, *Request)
		cached int
	}{
		{"the same prompt: all but the block of the last token", func(*Config, *Engine, *Request) {}, 8},
		{"another first token", func(_ *Config, _ *Engine, r *Request) { r.Prompt = append([]Token{7}, r.Prompt[1:]...) }, 0},
		{"another token in the second block", func(_ *Config, _ *Engine, r *Request) {
			r.Prompt = slices.Clone(r.Prompt)
			r.Prompt[5] = 77
		}, 4},
		{"another salt", func(_ *Config, _ *Engine, r *Request) { r.Salt = "tenant" }, 0},
		{"an adapter", func(_ *Config, _ *Engine, r *Request) { r.Adapter = "lora" }, 0},
		{"after a reset", func(_ *Config, e *Engine, _ *Request) { e.ResetPrefixCache() }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := small()
			cfg.MaxAdapters = 1
			e := mustNew(t, cfg)
			e.Submit(0, base)
			drain(t, e)
			again := base
			c.change(&cfg, e, &again)
			e.Submit(e.Stats().At, again)
			if got := drain(t, e)[0].Tokens; got != c.cached {
				t.Errorf("%d tokens cached, want %d", got, c.cached)
			}
		})
	}
	t.Run("switched off", func(t *testing.T) {
		cfg := small()
		cfg.DisablePrefixCache = true
		e := mustNew(t, cfg)
		for range 2 {
			e.Submit(e.Stats().At, base)
			if got := drain(t, e)[0].Tokens; got != 0 {
				t.Errorf("%d tokens cached, want 0", got)
			}
		}
	})
}

func TestSameStepSharesThePrefix(t *testing.T) {
	e := mustNew(t, small())
	e.Submit(0, Request{Prompt: tokens(0, 9), Output: tokens(90, 1)})
	e.Submit(0, Request{Prompt: tokens(0, 9), Output: tokens(90, 1)})
	events := e.Advance(0)
	if len(events) != 2 || events[0].Tokens != 0 || events[1].Tokens != 8 {
		t.Errorf("admissions %+v, want 0 and 8 cached tokens", events)
	}
	if got := e.Stats().BlocksUsed; got != 4 {
		t.Errorf("%d blocks used, want 2 shared and 1 each", got)
	}
}

func TestChunkedPrefill(t *testing.T) {
	e := mustNew(t, small())
	id := e.Submit(0, Request{Prompt: tokens(0, 40), Output: tokens(90, 1)})
	got := drain(t, e)
	want := []Event{
		{At: 0, ID: id, Kind: Admitted},
		{At: 42 * ms, ID: id, Kind: Prefill, Tokens: 32},
		{At: 60 * ms, ID: id, Kind: FirstToken, Tokens: 1, Since: 60 * ms},
	}
	if diff := cmp.Diff(want, got[:3]); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestBatchAndQueue(t *testing.T) {
	cfg := small()
	cfg.NumBlocks = 64
	e := mustNew(t, cfg)
	for i := range 6 {
		e.Submit(0, Request{Prompt: tokens(100*i, 4), Output: tokens(0, 2)})
	}
	e.Advance(0)
	if s := e.Stats(); s.Running != 4 || s.Waiting != 2 || s.BlocksUsed != 4 {
		t.Errorf("running %d waiting %d blocks %d, want 4, 2, 4", s.Running, s.Waiting, s.BlocksUsed)
	}
	var order []ID
	for _, ev := range drain(t, e) {
		if ev.Kind == Finished {
			order = append(order, ev.ID)
		}
	}
	if diff := cmp.Diff([]ID{1, 2, 3, 4, 5, 6}, order); diff != "" {
		t.Errorf("order of ends (-want +got):\n%s", diff)
	}
	// A step with 4 decoding requests takes 10 + 4 ms.
	if got := e.cfg.stepTime(0, 4, 0); got != 14*ms {
		t.Errorf("step of 4 takes %v", got)
	}
}

func TestBlocksLacking(t *testing.T) {
	e := mustNew(t, small()) // 64 tokens
	e.Submit(0, Request{Prompt: tokens(0, 30), Output: tokens(900, 2)})
	e.Submit(0, Request{Prompt: tokens(100, 44), Output: tokens(900, 2)})
	e.Advance(100 * ms)
	if s := e.Stats(); s.Running != 1 || s.Waiting != 0 {
		// The second got a chunk of 2 tokens in the first step and had to wait for blocks, or ran alone, by now.
		t.Fatalf("running %d waiting %d", s.Running, s.Waiting)
	}
	drain(t, e)
	if s := e.Stats(); s.Ended[Stop] != 2 {
		t.Errorf("ends %v, want 2", s.Ended)
	}
}

func TestPreemption(t *testing.T) {
	cfg := small()
	cfg.NumBlocks = 6 // 24 tokens
	e := mustNew(t, cfg)
	first := e.Submit(0, Request{Prompt: tokens(0, 8), Output: tokens(900, 12)})
	second := e.Submit(0, Request{Prompt: tokens(100, 8), Output: tokens(900, 12)})
	var preempted []ID
	answers := map[ID]int{}
	for _, ev := range drain(t, e) {
		switch ev.Kind {
		case Preempted:
			preempted = append(preempted, ev.ID)
		case FirstToken, NextToken:
			if answers[ev.ID]++; answers[ev.ID] != ev.Tokens {
				t.Errorf("request %d: token %d told as number %d", ev.ID, answers[ev.ID], ev.Tokens)
			}
		case Finished:
			if want := map[ID]int{first: 0, second: 1}[ev.ID]; ev.Timing.Preemptions != want {
				t.Errorf("request %d: %d preemptions, want %d", ev.ID, ev.Timing.Preemptions, want)
			}
		}
	}
	if diff := cmp.Diff([]ID{second}, preempted); diff != "" {
		t.Errorf("preempted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[ID]int{first: 12, second: 12}, answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if s := e.Stats(); s.PrefixQueries != 16 || s.PromptTokens != 16 || s.Preemptions != 1 {
		t.Errorf("a preemption must not be counted as another query: %+v", s)
	}
}

func TestAdapters(t *testing.T) {
	cfg := small()
	cfg.MaxAdapters = 1
	e := mustNew(t, cfg)
	a := e.Submit(0, Request{Adapter: "a", Prompt: tokens(0, 4), Output: tokens(0, 2)})
	b := e.Submit(0, Request{Adapter: "b", Prompt: tokens(0, 4), Output: tokens(0, 2)})
	base := e.Submit(0, Request{Prompt: tokens(0, 4), Output: tokens(0, 2)})
	e.Submit(0, Request{Adapter: "a", Prompt: tokens(0, 4), Output: tokens(0, 2)})
	e.Advance(0)
	s := e.Stats()
	if diff := cmp.Diff([]string{"a"}, s.RunningAdapters); diff != "" {
		t.Errorf("running adapters: %s", diff)
	}
	if diff := cmp.Diff([]string{"b"}, s.WaitingAdapters); diff != "" {
		t.Errorf("waiting adapters: %s", diff)
	}
	if s.Running != 3 || s.Waiting != 1 {
		t.Errorf("running %d waiting %d, want those of a and the base model running", s.Running, s.Waiting)
	}
	first := map[ID]time.Duration{}
	for _, ev := range drain(t, e) {
		if ev.Kind == FirstToken {
			first[ev.ID] = ev.At
		}
	}
	if first[a] != first[base] || first[b] <= first[a] {
		t.Errorf("first tokens at %v: want a and base together, b after", first)
	}
	if want := 10*ms + 12*ms + 5*ms; first[a] != want {
		t.Errorf("first token at %v, want %v with the loading of one adapter", first[a], want)
	}
}

func TestRejections(t *testing.T) {
	cfg := small()
	cfg.MaxModelLen, cfg.MaxWaiting = 20, 1
	for _, c := range []struct {
		name   string
		before int
		req    Request
		want   Reason
	}{
		{"prompt and answer too long", 0, Request{Prompt: tokens(0, 15), Output: tokens(0, 6)}, TooLong},
		{"no prompt", 0, Request{Output: tokens(0, 6)}, EmptyPrompt},
		{"an adapter without slots", 0, Request{Adapter: "a", Prompt: tokens(0, 1)}, NoAdapters},
		{"the queue is full", 1, Request{Prompt: tokens(0, 1)}, QueueFull},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := mustNew(t, cfg)
			for range c.before {
				e.Submit(0, Request{Prompt: tokens(0, 1), Output: tokens(0, 1)})
			}
			id := e.Submit(0, c.req)
			events := e.Advance(0)
			if events[0].Kind != Rejected || events[0].ID != id || events[0].Reason != c.want {
				t.Errorf("first event %+v, want the rejection of %d: %v", events[0], id, c.want)
			}
			if e.Stats().Ended[c.want] != 1 {
				t.Errorf("not counted: %v", e.Stats().Ended)
			}
		})
	}
}

func TestAbort(t *testing.T) {
	cfg := small()
	cfg.MaxRunning = 1
	e := mustNew(t, cfg)
	running := e.Submit(0, Request{Prompt: tokens(0, 8), Output: tokens(0, 8)})
	waiting := e.Submit(0, Request{Prompt: tokens(50, 8), Output: tokens(0, 8)})
	last := e.Submit(0, Request{Prompt: tokens(90, 8), Output: tokens(0, 2)})
	e.Advance(40 * ms)
	if !e.Abort(41*ms, waiting) || !e.Abort(41*ms, running) {
		t.Fatal("abort refused")
	}
	if e.Abort(41*ms, running) || e.Abort(41*ms, 999) {
		t.Error("an ended or unknown request was aborted")
	}
	if s := e.Stats(); s.BlocksUsed != 0 || s.Ended[Aborted] != 2 {
		t.Errorf("%d blocks used, ends %v", s.BlocksUsed, s.Ended)
	}
	var ended []ID
	for _, ev := range drain(t, e) {
		if ev.Kind == Finished {
			ended = append(ended, ev.ID)
		}
	}
	if diff := cmp.Diff([]ID{waiting, running, last}, ended); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
}

func TestTimeNeverGoesBack(t *testing.T) {
	e := mustNew(t, small())
	e.Advance(time.Second)
	e.Submit(0, Request{Prompt: tokens(0, 1), Output: tokens(0, 1)})
	if got := drain(t, e)[0].At; got != time.Second {
		t.Errorf("admitted at %v, want 1s", got)
	}
}

func TestConfigFaultsAllAtOnce(t *testing.T) {
	_, err := New(Config{BlockSize: -1, MaxRunning: 8, MaxStepTokens: 4, MaxWaiting: -1, MaxAdapters: -1, AdapterLoad: -1,
		StepPerRequest: -1, MaxModelLen: -1})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"BlockSize", "NumBlocks", "MaxStepTokens", "MaxWaiting", "MaxModelLen", "PrefillRate", "StepBase",
		"StepPerRequest", "MaxAdapters", "AdapterLoad"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s in %q", want, err)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}
