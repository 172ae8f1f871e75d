package remote

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func (s *handmade) reported() []*scorerv1.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*scorerv1.Outcome
	for _, m := range s.outcomes {
		all = append(all, m.Outcomes...)
	}
	return all
}

// picked is the result of a profile run in which the second candidate won.
func picked(c *route.Cycle, sc route.Scorer, s route.Scores) *route.ProfileResult {
	return &route.ProfileResult{
		Profile: &route.Profile{Scorers: []route.Scorer{sc}}, Candidates: allOf(c), Scores: []route.Scores{s}, Ranked: []int32{1},
	}
}

func TestOutcomesAreReported(t *testing.T) {
	prefix := &scorerv1.InputNeeds{RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_PREFIX_BLOCKS}, PrefixBlockSizeBytes: 64, MaxPrefixBlocks: 8}
	a := newHandmade("acme").needing(prefix).only(scorerv1.Capability_CAPABILITY_STREAM, scorerv1.Capability_CAPABILITY_OUTCOMES)
	b := newHandmade("acme").needing(prefix).only(scorerv1.Capability_CAPABILITY_STREAM, scorerv1.Capability_CAPABILITY_OUTCOMES)
	r := newRig(t, one("acme", a.serve(t, "127.0.0.1:0")+","+b.serve(t, "127.0.0.1:0")))
	sc := r.ready(r.resolve("acme"), 2)
	kittest.Eventually(t, "both to take outcomes", func() bool { return len(r.set.outboxes.list()) == 2 })
	c := r.cycle()
	c.Request.Prompt = chain(3)
	res := picked(c, sc, r.askAs(t.Context(), c, allOf(c), sc)[0])
	rep := r.set.Picked(c, &c.Snapshot.Table.Endpoints[1], res)
	rep.FirstToken(time.Second)
	rep.Finished(2*time.Second, false, route.NoUsage())
	rep.Moved("e1002")
	rep.Finished(3*time.Second, true, route.Usage{PromptTokens: 10, CachedPromptTokens: 0, OutputTokens: 5})

	hashes := &scorerv1.PrefixBlocks{Scheme: route.Scheme, BlockSizeBytes: 64, Hashes: make([]uint64, 3)}
	want := []*scorerv1.Outcome{
		{EndpointId: "e1001", Event: &scorerv1.Outcome_Picked{Picked: &scorerv1.Picked{OwnScore: proto.Float32(1), Prefix: hashes}}},
		{EndpointId: "e1001", Event: &scorerv1.Outcome_FirstToken{FirstToken: &scorerv1.FirstToken{Elapsed: durationpb.New(time.Second)}}},
		{EndpointId: "e1001", Event: &scorerv1.Outcome_Finished{Finished: &scorerv1.Finished{Elapsed: durationpb.New(2 * time.Second)}}},
		{EndpointId: "e1002", Event: &scorerv1.Outcome_Picked{Picked: &scorerv1.Picked{Prefix: hashes}}},
		{EndpointId: "e1002", Event: &scorerv1.Outcome_Finished{Finished: &scorerv1.Finished{
			Reason: scorerv1.FinishReason_FINISH_REASON_COMPLETED, Elapsed: durationpb.New(3 * time.Second),
			PromptTokenCount: proto.Uint32(10), CachedPromptTokenCount: proto.Uint32(0), OutputTokenCount: proto.Uint32(5),
		}}},
	}
	for i, s := range []*handmade{a, b} {
		kittest.Eventually(t, "all events to arrive", func() bool { return len(s.reported()) == len(want) })
		if diff := cmp.Diff(want, s.reported(), protocmp.Transform(), protocmp.IgnoreFields(&scorerv1.Outcome{}, "event_time", "request_id")); diff != "" {
			t.Errorf("replica %d: %s", i, diff)
		}
		for _, o := range s.reported() {
			if o.RequestId != "r1" || time.Since(o.EventTime.AsTime()).Abs() > time.Minute {
				t.Errorf("request %q at %v", o.RequestId, o.EventTime)
			}
		}
		if m := s.outcomes[0]; m.RouterId != "router-1" || m.BatchSequence != 1 {
			t.Errorf("batch %d of %q", m.BatchSequence, m.RouterId)
		}
	}
	if got := r.value("pointsman_router_scorer_outcomes_total", "scorer", "acme", "result", "sent"); got != 10 {
		t.Errorf("%v events sent", got)
	}
}

// A score that the scorer abstained from, or that never came, is not its own.
func TestOwnScore(t *testing.T) {
	s := newHandmade("acme")
	r := newRig(t, one("acme", s.serve(t, "")))
	sc := r.resolved("acme")
	svc := sc.Asked.(*Instance).service
	c := r.cycle()
	for name, tc := range map[string]struct {
		scores route.Scores
		want   *float32
	}{
		"scored":              {route.Scores{Verdict: route.Scored, Values: []float32{0, 0.5, 0, 0}}, proto.Float32(0.5)},
		"abstained on it":     {route.Scores{Verdict: route.Scored, Values: []float32{0, 0.5, 0, 0}, AbstainedOn: []uint32{1}}, nil},
		"abstained on others": {route.Scores{Verdict: route.Scored, Values: []float32{0, 0.5, 0, 0}, AbstainedOn: []uint32{0, 2}}, proto.Float32(0.5)},
		"late":                {route.Scores{Verdict: route.TimedOut}, nil},
	} {
		if diff := cmp.Diff(tc.want, ownScore(svc, picked(c, sc, tc.scores))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if ownScore(svc, nil) != nil {
		t.Error("a score of no result")
	}
}

func TestNobodyWantsOutcomes(t *testing.T) {
	s := newHandmade("acme").only(scorerv1.Capability_CAPABILITY_STREAM, scorerv1.Capability_CAPABILITY_OUTCOMES, scorerv1.Capability_CAPABILITY_FOLLOWS_BROADCAST)
	r := newRig(t, one("acme", s.serve(t, "")))
	sc := r.resolved("acme")
	c := r.cycle()
	res := picked(c, sc, r.ask(sc)[0])
	if got := r.set.Picked(c, &c.Snapshot.Table.Endpoints[1], res); got != nil {
		t.Error("outcomes are reported to a scorer that follows the broadcast")
	}
	if n := testing.AllocsPerRun(100, func() { r.set.Picked(c, &c.Snapshot.Table.Endpoints[1], res) }); n != 0 {
		t.Errorf("%v allocations for nobody", n)
	}
}

// What does not fit is lost, and the sequence shows it.
func TestOutboxOverflow(t *testing.T) {
	r := newRig(t, one("acme", "127.0.0.1:1"), func(c *rigConfig) { c.idle = true })
	b := newOutbox(newReplica(r.set.services[3], "127.0.0.1:1"))
	for i := range outboxEvents + 5 {
		b.add(&scorerv1.Outcome{RequestId: strconv.Itoa(i)})
	}
	next := 0
	var sequences []uint64
	for m := b.take(); m != nil; m = b.take() {
		if len(m.Outcomes) > outcomeBatch {
			t.Errorf("%d events in a batch", len(m.Outcomes))
		}
		sequences = append(sequences, m.BatchSequence)
		for _, o := range m.Outcomes {
			if o.RequestId != strconv.Itoa(next) {
				t.Fatalf("event %s, want %d", o.RequestId, next)
			}
			next++
		}
	}
	if next != outboxEvents {
		t.Errorf("%d events came out", next)
	}
	b.add(&scorerv1.Outcome{})
	sequences = append(sequences, b.take().BatchSequence)
	if diff := cmp.Diff([]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 11}, sequences); diff != "" {
		t.Error(diff)
	}
	if got := r.value("pointsman_router_scorer_outcomes_total", "result", "dropped"); got != 5 {
		t.Errorf("%v events dropped", got)
	}
}
