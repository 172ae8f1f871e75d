package workload

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/sim/token"
)

func mustNew(t *testing.T, cfg Config) *Generator {
	t.Helper()
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// converse runs a session with the answers that a simulated server gives.
func converse(s *Session) []Turn {
	var turns []Turn
	for {
		turn, ok := s.Next()
		if !ok {
			return turns
		}
		turns = append(turns, turn)
		seed := token.Sum(turn.AppendTokens(nil))
		s.Answer(token.Text(seed, turn.AnswerTokens, token.Sentence))
	}
}

func TestDeterministic(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Sessions = 20
	a, b := mustNew(t, cfg), mustNew(t, cfg)
	for i := range cfg.Sessions {
		j := cfg.Sessions - 1 - i // in another order
		if diff := cmp.Diff(converse(a.Session(j)), converse(b.Session(j))); diff != "" {
			t.Fatalf("session %d differs:\n%s", j, diff)
		}
		if diff := cmp.Diff(converse(b.Session(i)), converse(a.Session(i))); diff != "" {
			t.Fatalf("session %d differs when made again:\n%s", i, diff)
		}
	}
	cfg.Seed++
	if cmp.Equal(converse(a.Session(0)), converse(mustNew(t, cfg).Session(0))) {
		t.Error("another seed, the same session")
	}
}

func TestPromptsGrow(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Turns = Always(5)
	turns := converse(mustNew(t, cfg).Session(3))
	if len(turns) != 5 {
		t.Fatalf("%d turns, want 5", len(turns))
	}
	for i, turn := range turns {
		if want := 2 + 2*i; len(turn.Messages) != want { // system, user, then a pair per turn
			t.Errorf("turn %d has %d messages, want %d", i, len(turn.Messages), want)
		}
		if i == 0 {
			continue
		}
		before := turns[i-1]
		answer := token.AppendText(before.AppendTokens(nil), turn.Messages[len(turn.Messages)-2].Content)
		if got := turn.AppendTokens(nil); !slices.Equal(answer, got[:len(answer)]) {
			t.Errorf("turn %d: its tokens do not begin with those of the turn before and its answer", i)
		}
		if !strings.HasPrefix(turn.Text(), before.Text()) {
			t.Errorf("turn %d: its text does not begin with that of the turn before", i)
		}
		if diff := cmp.Diff(before.Messages, turn.Messages[:len(before.Messages)]); diff != "" {
			t.Errorf("turn %d: history differs:\n%s", i, diff)
		}
	}
}

func TestSystemPromptsAreShared(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Sessions, cfg.SystemPrompts = 400, 4
	g := mustNew(t, cfg)
	texts, counts := map[int]string{}, map[int]int{}
	for i := range cfg.Sessions {
		s := g.Session(i)
		turn, _ := s.Next()
		counts[s.System]++
		if text, ok := texts[s.System]; ok && text != turn.Messages[0].Content {
			t.Fatalf("system prompt %d has two texts", s.System)
		}
		texts[s.System] = turn.Messages[0].Content
	}
	if len(texts) != 4 || counts[0] <= counts[3] {
		t.Errorf("sessions by system prompt: %v, want all four and the first favoured", counts)
	}
}

func TestSizes(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Sessions, cfg.SystemPrompts, cfg.Turns = 2000, 0, Always(1)
	g := mustNew(t, cfg)
	var sizes []int
	for i := range cfg.Sessions {
		turn, _ := g.Session(i).Next()
		sizes = append(sizes, len(token.AppendText(nil, turn.Messages[0].Content)))
	}
	slices.Sort(sizes)
	for _, p := range cfg.FirstTokens {
		got := float64(sizes[int(p.P*float64(len(sizes)-1))])
		if math.Abs(got-p.Value) > 0.2*p.Value+3 {
			t.Errorf("at %v: %v tokens, want %v", p.P, got, p.Value)
		}
	}
	last := g.Session(cfg.Sessions - 1).Start.Seconds()
	if want := float64(cfg.Sessions) / cfg.SessionRate; math.Abs(last-want) > 0.1*want {
		t.Errorf("the last session begins at %vs, want about %vs", last, want)
	}
}

func TestAdapters(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Sessions, cfg.Adapters, cfg.AdapterShare = 1000, []string{"a", "b"}, 0.5
	g := mustNew(t, cfg)
	got := map[string]int{}
	for i := range cfg.Sessions {
		got[g.Session(i).Model]++
	}
	if len(got) != 3 || got["a"] < 200 || got["b"] < 200 || got[cfg.Model] < 400 {
		t.Errorf("sessions by model: %v", got)
	}
}

func TestBodies(t *testing.T) {
	turn := Turn{Model: "m", Messages: []Message{{"system", "Be <brief>."}, {"user", "Hi"}}, AnswerTokens: 7}
	for _, c := range []struct {
		name string
		body []byte
		want string
	}{
		{"chat", turn.ChatBody(false),
			`{"model":"m","messages":[{"role":"system","content":"Be <brief>."},{"role":"user","content":"Hi"}],"max_tokens":7,"ignore_eos":true}`},
		{"streamed completion", turn.CompletionBody(true),
			`{"model":"m","prompt":"system:\nBe <brief>.\nuser:\nHi\nassistant:","max_tokens":7,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got, want any
			if err := json.NewDecoder(bytes.NewReader(c.body)).Decode(&got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestQuantiles(t *testing.T) {
	q := Quantiles{{0, 10}, {0.5, 20}, {0.5, 30}, {1, 130}}
	for _, c := range []struct{ u, want float64 }{{0, 10}, {0.25, 15}, {0.5, 20}, {0.75, 80}, {1, 130}} {
		if got := q.At(c.u); got != c.want {
			t.Errorf("at %v: %v, want %v", c.u, got, c.want)
		}
	}
	if got := q.Mean(); got != 0.5*15+0.5*80 {
		t.Errorf("mean %v, want 47.5", got)
	}
}

func TestFaultsAllAtOnce(t *testing.T) {
	_, err := New(Config{
		SessionRate: -1, AdapterShare: 2, SystemPrompts: -1, SystemSkew: -1,
		SystemTokens: Always(0), FirstTokens: Quantiles{{0, 1}}, TurnTokens: Quantiles{{0.1, 1}, {1, 2}},
		AnswerTokens: Quantiles{{0, 5}, {1, 4}}, Turns: Always(math.NaN()), ThinkSeconds: Always(-1),
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"Sessions", "SessionRate", "Model", "AdapterShare", "no Adapters", "SystemPrompts", "SystemSkew",
		"SystemTokens", "FirstTokens: 1 points", "TurnTokens: points from 0.1", "must not fall", "Turns: value NaN", "ThinkSeconds"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in:\n%v", want, err)
		}
	}
}

// The rate climbs evenly: the second half of the sessions takes less time than the first.
func TestTheRateClimbs(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Sessions, cfg.SessionRate, cfg.FinalRate = 2000, 1, 9
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	// ∫ dn / (1 + 8n/2000) is 250 × ln(rate), in seconds.
	half, all := g.Session(999).Start.Seconds(), g.Session(1999).Start.Seconds()
	if wantHalf, wantAll := 250*math.Log(5), 250*math.Log(9); math.Abs(half-wantHalf) > .1*wantHalf || math.Abs(all-wantAll) > .1*wantAll {
		t.Errorf("half began within %.0f s, all within %.0f s, want %.0f and %.0f", half, all, wantHalf, wantAll)
	}
	for name, rates := range map[string][2]float64{"negative": {1, -1}, "without a first": {0, 1}} {
		if cfg.SessionRate, cfg.FinalRate = rates[0], rates[1]; cfg.Validate() == nil {
			t.Errorf("a final rate that is %s was taken", name)
		}
	}
}
