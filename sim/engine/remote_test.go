package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A prompt is computed by one engine, kept, fetched by another, and given up.
func TestPrefillHereDecodeThere(t *testing.T) {
	prefill, decode := mustNew(t, small()), mustNew(t, small())
	prompt := tokens(0, 10)
	first := prefill.Submit(0, Request{Prompt: prompt, Output: tokens(100, 3), MaxTokens: 1, Hold: true})
	drain(t, prefill)
	if s := prefill.Stats(); len(prefill.Held(first)) != 3 || s.Held != 1 || s.BlocksUsed != 3 || s.Ended[Length] != 1 {
		t.Fatalf("held %v, stats %+v, want 3 blocks", prefill.Held(first), s)
	}

	id := decode.Submit(30*ms, Request{Prompt: prompt, Output: tokens(100, 3), Remote: 10})
	got := slices.Clone(decode.Advance(30 * ms))
	if _, ok := decode.Next(); ok {
		t.Error("an engine that only waits for a prompt has nothing to do")
	}
	if s := decode.Stats(); s.Waiting != 1 || s.Fetching != 1 || s.BlocksUsed != 3 {
		t.Errorf("while fetching: %+v", s)
	}
	if !decode.Arrive(50*ms, id) || decode.Arrive(50*ms, id) {
		t.Error("a prompt arrives once")
	}
	if !prefill.Release(50*ms, first) || prefill.Release(50*ms, first) || prefill.Stats().BlocksUsed != 0 {
		t.Error("blocks are given up once")
	}
	got = append(got, drain(t, decode)...)
	want := []Event{
		{At: 30 * ms, ID: id, Kind: Fetching, Tokens: 10},
		{At: 50 * ms, ID: id, Kind: Admitted, Tokens: 9, Since: 20 * ms},
		{At: 61 * ms, ID: id, Kind: FirstToken, Tokens: 1, Since: 31 * ms}, // the last token of the prompt is computed anew
		{At: 72 * ms, ID: id, Kind: NextToken, Tokens: 2, Since: 11 * ms},
		{At: 83 * ms, ID: id, Kind: NextToken, Tokens: 3, Since: 11 * ms},
		{At: 83 * ms, ID: id, Kind: Finished, Tokens: 3, Since: 53 * ms,
			Timing: &Timing{Submitted: 30 * ms, Admitted: 50 * ms, FirstToken: 61 * ms, Ended: 83 * ms, Prompt: 10, Cached: 9}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if s := decode.Stats(); s.PrefillTokens != 1 || s.PrefixHits != 0 || s.RemoteQueries != 10 || s.RemoteHits != 10 || s.BlocksUsed != 0 {
		t.Errorf("stats %+v", s)
	}

	// The same prompt again: what the prefix cache has is not fetched.
	again := decode.Submit(90*ms, Request{Prompt: prompt, Output: tokens(100, 3), Remote: 10})
	events := decode.Advance(90 * ms)
	if len(events) != 1 || events[0].Kind != Fetching || events[0].Tokens != 2 {
		t.Errorf("events %+v, want the fetching of the 2 tokens that are in no full block", events)
	}
	decode.Arrive(91*ms, again)
	drain(t, decode)
}

func TestHoldOnlyWhatTheCapCut(t *testing.T) {
	for _, c := range []struct {
		name string
		req  Request
		held int
	}{
		{"cut by the cap", Request{Prompt: tokens(0, 8), Output: tokens(50, 3), MaxTokens: 1, Hold: true}, 2},
		{"complete", Request{Prompt: tokens(0, 8), Output: tokens(50, 3), Hold: true}, 0},
		{"no answer", Request{Prompt: tokens(0, 8), Hold: true}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := mustNew(t, small())
			id := e.Submit(0, c.req)
			drain(t, e)
			if got := len(e.Held(id)); got != c.held || e.Stats().BlocksUsed != c.held {
				t.Errorf("%d blocks held, %d used, want %d", got, e.Stats().BlocksUsed, c.held)
			}
		})
	}
}

func TestPromptsThatDoNotArrive(t *testing.T) {
	for _, c := range []struct {
		name      string
		act       func(e *Engine, id ID) bool
		reason    Reason
		generated uint64
		computed  uint64
	}{
		{"recompute", func(e *Engine, id ID) bool { return e.Miss(20*ms, id, true) }, Stop, 2, 10},
		{"fail", func(e *Engine, id ID) bool { return e.Miss(20*ms, id, false) }, Failed, 0, 0},
		{"the client goes", func(e *Engine, id ID) bool { return e.Abort(20*ms, id) }, Aborted, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := mustNew(t, small())
			id := e.Submit(0, Request{Prompt: tokens(0, 10), Output: tokens(50, 2), Remote: 10})
			e.Advance(0)
			if !c.act(e, id) {
				t.Fatal("refused")
			}
			if e.Miss(20*ms, id, true) || e.Arrive(20*ms, id) {
				t.Error("a request that does not fetch any more was told of its prompt")
			}
			drain(t, e)
			if s := e.Stats(); s.Ended[c.reason] != 1 || s.GenerationTokens != c.generated || s.PrefillTokens != c.computed || s.BlocksUsed != 0 || s.Fetching != 0 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

// Others are served while a prompt is on its way, and an engine whose blocks are all kept waits.
func TestStalledEngineGoesOn(t *testing.T) {
	cfg := small()
	cfg.NumBlocks, cfg.MaxModelLen = 6, 24
	e := mustNew(t, cfg)
	held := e.Submit(0, Request{Prompt: tokens(0, 16), Output: tokens(900, 2), MaxTokens: 1, Hold: true})
	drain(t, e)
	waits := e.Submit(100*ms, Request{Prompt: tokens(100, 16), Output: tokens(900, 1)})
	e.Advance(200 * ms)
	if s := e.Stats(); s.Waiting != 1 || s.Running != 0 {
		t.Fatalf("stats %+v, want one that waits for blocks", s)
	}
	small := e.Submit(300*ms, Request{Prompt: tokens(200, 4), Output: tokens(900, 1)})
	e.Advance(300 * ms)
	if _, ok := e.Next(); ok {
		t.Error("first come, first served: the small one waits behind the large one")
	}
	e.Release(400*ms, held)
	var order []ID
	for _, ev := range drain(t, e) {
		if ev.Kind == Finished {
			order = append(order, ev.ID)
		}
		if ev.At < 400*ms {
			t.Errorf("%+v before blocks were free", ev)
		}
	}
	if diff := cmp.Diff([]ID{waits, small}, order); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}

	far := e.Submit(600*ms, Request{Prompt: tokens(300, 8), Output: tokens(900, 1), Remote: 8})
	near := e.Submit(600*ms, Request{Prompt: tokens(400, 8), Output: tokens(900, 1)})
	ended := map[ID]bool{}
	for _, ev := range drain(t, e) {
		ended[ev.ID] = ended[ev.ID] || ev.Kind == Finished
	}
	if ended[far] || !ended[near] {
		t.Errorf("ended %v, want the one whose prompt is here", ended)
	}
}

func TestCacheThreshold(t *testing.T) {
	for _, c := range []struct {
		name   string
		warm   int
		remote int
		least  float64
		reason Reason
	}{
		{"K5: cold", 0, 0, 0.8, CacheThreshold},
		{"too little", 4, 0, 0.8, CacheThreshold},
		{"enough", 8, 0, 0.8, Length},
		{"enough of it elsewhere", 0, 8, 0.8, Length},
		{"just met", 4, 0, 0.4, Length},
		{"no threshold", 0, 0, 0, Length},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := mustNew(t, small())
			if c.warm > 0 {
				e.Submit(0, Request{Prompt: tokens(0, c.warm), Output: tokens(900, 1)})
				drain(t, e)
			}
			id := e.Submit(time.Second, Request{Prompt: tokens(0, 10), Output: tokens(900, 1), MaxTokens: 1, MinCached: c.least, Remote: c.remote})
			for _, ev := range append(slices.Clone(e.Advance(time.Second)), drain(t, e)...) {
				if ev.Kind == Fetching {
					e.Arrive(ev.At, id)
				}
			}
			drain(t, e)
			s := e.Stats()
			if s.Ended[c.reason] == 0 || s.BlocksUsed != 0 || s.Waiting != 0 {
				t.Errorf("ended %v, want %v: %+v", s.Ended, c.reason, s)
			}
		})
	}
}

func TestContextMakesStepsLonger(t *testing.T) {
	cfg := small()
	cfg.StepPerContextToken = time.Millisecond
	e := mustNew(t, cfg)
	e.Submit(0, Request{Prompt: tokens(0, 5), Output: tokens(100, 2)})
	events := drain(t, e)
	if got, want := events[len(events)-1].At, (10+5)*ms+(10+1+6)*ms; got != want {
		t.Errorf("ended at %v, want %v", got, want)
	}
}

func TestHashesAreTheEngines(t *testing.T) {
	e := mustNew(t, small())
	r := &active{Request: Request{Adapter: "a", Salt: "s", Prompt: tokens(0, 11)}}
	e.extendHashes(r)
	if diff := cmp.Diff(r.hashes, Hashes("a", "s", tokens(0, 11), 4)); diff != "" {
		t.Errorf("hashes (-engine +function):\n%s", diff)
	}
}

// Random traffic with prompts that are kept, fetched, lost and late: no block is lost or free twice, and all ends.
func TestRemoteProperties(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 3))
		cfg := small()
		cfg.NumBlocks, cfg.MaxModelLen = 20+rng.IntN(40), 60
		cfg.MaxAdapters = rng.IntN(2)
		e := mustNew(t, cfg)
		now := time.Duration(0)
		var fetching, kept []ID
		hold, ended := map[ID]bool{}, map[ID]Reason{}
		submitted := 0
		advance := func() {
			for _, ev := range e.Advance(now) {
				if _, over := ended[ev.ID]; over {
					t.Fatalf("seed %d: request %d goes on: %+v", seed, ev.ID, ev)
				}
				switch ev.Kind {
				case Fetching:
					fetching = append(fetching, ev.ID)
				case Finished, Rejected:
					ended[ev.ID] = ev.Reason
					if hold[ev.ID] && ev.Reason == Length {
						kept = append(kept, ev.ID)
					}
				}
			}
			conserved(t, e)
		}
		take := func(ids *[]ID) ID {
			i := rng.IntN(len(*ids))
			id := (*ids)[i]
			*ids = slices.Delete(*ids, i, i+1)
			return id
		}
		settle := func(ids *[]ID) {
			switch id := take(ids); rng.IntN(5) {
			case 0:
				e.Miss(now, id, rng.IntN(2) == 0)
			case 1:
				e.Abort(now, id)
			default:
				e.Arrive(now, id)
			}
		}
		for range 150 {
			switch rng.IntN(6) {
			case 0, 1:
				prompt := tokens(1000*rng.IntN(3), 1+rng.IntN(40))
				r := Request{Prompt: prompt, Output: tokens(rng.IntN(3), 1+rng.IntN(15)), MaxTokens: rng.IntN(4)}
				switch rng.IntN(4) {
				case 0:
					r.Hold, r.MaxTokens = true, 1
				case 1:
					r.Remote = rng.IntN(len(prompt) + 1)
				case 2:
					r.MinCached = rng.Float64()
				}
				if cfg.MaxAdapters > 0 && rng.IntN(3) == 0 {
					r.Adapter = "a"
				}
				id := e.Submit(now, r)
				submitted++
				hold[id] = r.Hold
			case 2:
				if len(fetching) > 0 {
					settle(&fetching)
				}
			case 3:
				if len(kept) > 0 {
					if id := take(&kept); !e.Release(now, id) {
						t.Fatalf("seed %d: nothing is held of %d", seed, id)
					}
				}
			default:
				now += time.Duration(rng.IntN(60)) * ms
			}
			advance()
		}
		for range 20_000 {
			switch at, ok := e.Next(); {
			case ok:
				now = max(now, at)
			case len(fetching) > 0:
				e.Arrive(now, take(&fetching))
			case len(kept) > 0:
				e.Release(now, take(&kept))
			}
			advance()
			if _, ok := e.Next(); !ok && len(fetching)+len(kept) == 0 {
				break
			}
		}
		if s := e.Stats(); len(ended) != submitted || s.BlocksUsed+s.Running+s.Waiting+s.Held != 0 {
			t.Fatalf("seed %d: %d of %d ended: %+v", seed, len(ended), submitted, s)
		}
	}
}
