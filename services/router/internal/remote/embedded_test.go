package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
	"github.com/pointsman/pointsman/sdk/scorer/wire"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// mixed is a scorer type that follows the tables and gives every kind of answer: by
// the request's name, positions get scores, abstentions, matches and words, or an error.
type mixed struct{ roster *roster.Roster }

func (mixed) Info() *scorerv1.ScorerType { return &scorerv1.ScorerType{Name: "mixed"} }
func (mixed) FollowsTables() bool        { return true }
func (mixed) Parse([]byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
	return nil, &scorerv1.InputNeeds{RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_PREFIX_BLOCKS}, PrefixBlockSizeBytes: 64}, nil
}

func (m mixed) Score(ctx context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
	if _, limited := ctx.Deadline(); !limited || ctx.Err() != nil {
		return errors.New("a call without a deadline, or after it")
	}
	s, held := m.roster.SnapshotOf(req.GetTable().GetTableDigest())
	if !held {
		return scorer.TableNotHeld(req.GetTable().GetTableDigest())
	}
	positions := req.GetTable().GetPositions()
	if len(positions) == 0 {
		for i := range s.Len() {
			positions = append(positions, uint32(i)) //nolint:gosec // a position
		}
	}
	seed := uint64(len(req.GetRequest().GetPrefix().GetHashes()))
	for _, c := range req.GetRequest().GetModel() {
		seed = seed*31 + uint64(c)
	}
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the same for every placement
	switch rng.IntN(8) {
	case 0:
		return scorer.Overloaded("model %s", req.GetRequest().GetModel())
	case 1:
		scorer.AbstainAll(out, scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE)
		return nil
	case 2:
		panic("a scorer's own fault")
	}
	scores := scorer.Scores(out, len(positions))
	for i, p := range positions {
		scores[i] = rng.Float32() * float32(p%5) / 4
		if rng.IntN(10) == 0 {
			scorer.Abstain(out, i, scorerv1.AbstainReason_ABSTAIN_REASON_STALE_STATE)
		}
	}
	out.RequestsPerPoint = float32(1 + rng.IntN(9))
	if matched := scorer.MatchedBlocks(out, len(positions)); seed%2 == 0 {
		for i := range matched {
			matched[i] = uint32(rng.IntN(1 + len(req.GetRequest().GetPrefix().GetHashes()))) //nolint:gosec // small
		}
	}
	if req.GetExplain() {
		out.Explanations = []*scorerv1.Explanation{{CandidateIndex: 0, Text: fmt.Sprint("seed ", seed)}}
	}
	return nil
}

func newMixed(t testing.TB, r *roster.Roster) *scorer.Server {
	t.Helper()
	s, err := scorer.NewServer("mixed", "1", []scorerv1.Capability{
		scorerv1.Capability_CAPABILITY_STREAM, scorerv1.Capability_CAPABILITY_TABLE_REFERENCE, scorerv1.Capability_CAPABILITY_FOLLOWS_BROADCAST, scorerv1.Capability_CAPABILITY_EXPLAIN,
	}, []scorer.Type{mixed{r}}, scorer.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// listen serves a server of the contract and returns its target.
func listen(t testing.TB, network string, s *scorer.Server) string {
	t.Helper()
	address, prefix := "127.0.0.1:0", ""
	if network == "unix" {
		address, prefix = filepath.Join(t.TempDir(), "s"), "unix://"
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.ForceServerCodecV2(wire.Codec()))
	s.Register(g)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(l) }()
	t.Cleanup(func() { g.Stop(); <-done })
	return prefix + l.Addr().String()
}

// Wherever a scorer is, the router is told the same: TCP, Unix socket, one call per
// request, or in its own process. What is told is all that a pick goes by.
func TestEveryPlacementGivesTheSameScores(t *testing.T) {
	shared := roster.New(roster.Config{})
	shared.SetTable(newTable(t, 50))
	server := newMixed(t, shared)
	placements := map[string]ScorerConfig{
		"tcp":      {Target: listen(t, "tcp", server), Transport: Stream},
		"unix":     {Target: listen(t, "unix", server), Transport: Stream},
		"unary":    {Target: listen(t, "tcp", server), Transport: Unary},
		"embedded": {Target: embeddedTarget},
	}
	type placed struct {
		rig    *rig
		scorer route.Scorer
	}
	var names []string
	all := make(map[string]placed)
	for name, cfg := range placements {
		cfg.Name = "mixed"
		r := newRig(t, []ScorerConfig{cfg}, func(c *rigConfig) {
			c.size = 50
			c.breaker.failures = 1 << 30 // faults of the scorer are a part of this
			if cfg.Target == embeddedTarget {
				c.embedded = map[string]Embedded{"mixed": {Server: server}}
			}
		})
		names = append(names, name)
		all[name] = placed{r, r.resolved("mixed")}
	}
	slices.Sort(names)
	verdicts := make(map[route.Verdict]int)
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // repeatable on purpose
	for n := range 300 {
		var candidates []int32
		for p := range int32(50) {
			if n%3 == 0 || rng.IntN(3) == 0 {
				candidates = append(candidates, p)
			}
		}
		if len(candidates) == 0 {
			candidates = []int32{7}
		}
		model, explain := fmt.Sprint("m", rng.IntN(1000)), rng.IntN(4) == 0
		var first route.Scores
		for i, name := range names {
			p := all[name]
			c := p.rig.cycle()
			c.Request.Model, c.Explain = model, explain
			got := p.rig.askAs(t.Context(), c, candidates, p.scorer)[0]
			got.Elapsed = 0
			if i == 0 {
				first = got
				verdicts[got.Verdict]++
				continue
			}
			if diff := cmp.Diff(first, got); diff != "" {
				t.Fatalf("request %d, model %s: %s and %s differ: %s", n, model, names[0], name, diff)
			}
		}
	}
	for _, v := range []route.Verdict{route.Scored, route.Abstained, route.Failed, route.Skipped} {
		if verdicts[v] == 0 {
			t.Errorf("no answer was %v: %v", v, verdicts)
		}
	}
	if got := all["embedded"].rig.set.Status()[0].GetTransport(); got != "embedded" {
		t.Errorf("the embedded scorer is said to be reached by %q", got)
	}
}

// Many requests may ask an embedded scorer at once.
func TestEmbeddedScorerIsAskedAtOnce(t *testing.T) {
	shared := roster.New(roster.Config{})
	shared.SetTable(newTable(t, 4))
	r := newRig(t, one("mixed", embeddedTarget), func(c *rigConfig) {
		c.breaker.failures = 1 << 30
		c.embedded = map[string]Embedded{"mixed": {Server: newMixed(t, shared)}}
	})
	sc := r.resolved("mixed")
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 200 {
				if out := r.ask(sc)[0]; out.Verdict == route.TimedOut {
					t.Error("a direct call timed out")
				}
			}
		})
	}
	callers.Wait()
	if n := r.set.Status()[0].GetCallCount(); n != 1600 {
		t.Errorf("%d calls were counted, want 1600", n)
	}
}

// A scorer within that is not ready is not asked, and it is told why.
func TestEmbeddedScorerThatIsNotReady(t *testing.T) {
	shared := roster.New(roster.Config{})
	shared.SetTable(newTable(t, 4))
	tel := telemetry.Discard()
	tel.Health.Set("prefixes", errors.New("copying the index"))
	r := newRig(t, one("mixed", embeddedTarget), func(c *rigConfig) {
		c.embedded = map[string]Embedded{"mixed": {Server: newMixed(t, shared), Health: tel.Health}}
	})
	sc := r.resolve("mixed")
	kittest.Eventually(t, "the reason to be told", func() bool {
		return strings.Contains(r.set.Status()[0].GetReplicas()[0].GetReason(), "copying the index")
	})
	r.wantVerdict(r.ask(sc)[0], route.Skipped)
	tel.Health.Set("prefixes", nil)
	r.ready(sc, 1)
}

// A scorer that does not keep the contract is not asked, wherever it is.
func TestEmbeddedStrangerIsHeldAgainstTheContract(t *testing.T) {
	r := newRig(t, []ScorerConfig{{Name: "stranger", Target: embeddedTarget, Types: []string{"odd"}}}, func(c *rigConfig) {
		c.embedded = map[string]Embedded{"stranger": {Server: scorerv1.UnimplementedScorerServiceServer{}}}
	})
	sc := r.resolve("odd")
	kittest.Eventually(t, "the breach to be told", func() bool {
		return strings.Contains(r.set.Status()[0].GetReplicas()[0].GetReason(), "get scorer info")
	})
	r.wantVerdict(r.ask(sc)[0], route.Skipped)
}

func TestWhatCannotBeEmbedded(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  ScorerConfig
		want string
	}{
		{"nothing within", ScorerConfig{Name: "scorer-kv", Target: embeddedTarget}, "no scorer of that name within it (within are mixed)"},
		{"transport", ScorerConfig{Name: "mixed", Target: embeddedTarget, Transport: Stream}, "transport: is of no use"},
		{"settings of another place", ScorerConfig{Name: "mixed", Target: "127.0.0.1:9", Settings: "f"}, "settings: is for target: embedded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Scorers = []ScorerConfig{tc.cfg}
			deps := Deps{Roster: roster.New(roster.Config{}), RouterID: "r", Embedded: map[string]Embedded{"mixed": {}}}
			if _, err := New(cfg, deps, telemetry.Discard()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// A program with built-in scorers within asks those, unless it is told otherwise.
func TestBuiltInsWithinAreTheDefault(t *testing.T) {
	within := map[string]Embedded{"scorer-kv": {}}
	for _, tc := range []struct {
		configured []ScorerConfig
		want       string
		embedded   bool
	}{
		{nil, embeddedTarget, true},
		{[]ScorerConfig{{Name: "scorer-kv", Settings: "f"}}, embeddedTarget, true},
		{[]ScorerConfig{{Name: "scorer-kv", Target: "127.0.0.1:9"}}, "127.0.0.1:9", false},
	} {
		if got := complete(tc.configured, within)[1].Target; got != tc.want {
			t.Errorf("%v: target %q, want %q", tc.configured, got, tc.want)
		}
		if _, embedded := (Config{Scorers: tc.configured}).HasEmbedded("scorer-kv"); embedded != tc.embedded {
			t.Errorf("%v: embedded %t, want %t", tc.configured, embedded, tc.embedded)
		}
	}
	if got := complete(nil, within)[0].Target; got != "dns:///scorer-queue:9100" {
		t.Errorf("a scorer that is not within: target %q", got)
	}
}

// BenchmarkEmbedded is BenchmarkFan with three scorers in this process.
func BenchmarkEmbedded(b *testing.B) {
	var cfg []ScorerConfig
	within := make(map[string]Embedded)
	for i := range 3 {
		name := fmt.Sprintf("flat-%d", i)
		s, err := scorer.NewServer(name, "1", []scorerv1.Capability{
			scorerv1.Capability_CAPABILITY_TABLE_REFERENCE, scorerv1.Capability_CAPABILITY_FOLLOWS_BROADCAST,
		}, []scorer.Type{flat{name}}, scorer.DefaultConfig())
		if err != nil {
			b.Fatal(err)
		}
		cfg, within[name] = append(cfg, ScorerConfig{Name: name, Target: embeddedTarget}), Embedded{Server: s}
	}
	r := newRig(b, cfg, func(c *rigConfig) { c.size, c.embedded = 128, within })
	var all []route.Scorer
	for _, c := range cfg {
		all = append(all, r.resolved(c.Name))
	}
	c, candidates, out := r.cycle(), allOf(r.cycle()), make([]route.Scores, len(all))
	b.ReportAllocs()
	for b.Loop() {
		r.fan.Score(context.Background(), c, all, candidates, out)
	}
	for i := range out {
		r.wantVerdict(out[i], route.Scored)
	}
}
