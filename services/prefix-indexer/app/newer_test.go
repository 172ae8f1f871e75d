package app

import (
	"encoding/base64"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// F19 over the broadcast: cold prompts are learned from what routers tell, so two
// replicas agree; warm ones change nothing.
func TestF19ReplicasAgreeOnColdPrompts(t *testing.T) {
	url := kittest.NATS(t)
	first, second := start(t, url), start(t, url)
	first.publish(3)
	second.table = first.table
	kittest.Eventually(t, "both are ready", func() bool { return first.ready() && second.ready() })
	tell := func(endpoint string, cold bool, hashes ...uint64) {
		if err := first.prefixes.Publish(&statev1.PrefixBatch{Placements: []*statev1.PrefixPlacement{
			{EndpointId: endpoint, Scheme: "test", BlockSizeBytes: 64, Hashes: hashes, Cold: cold},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	both := func(what string, hash uint64, want ...float32) {
		t.Helper()
		for _, s := range []*service{first, second} {
			kittest.Eventually(t, what, func() bool {
				req := s.request([]uint64{hash})
				req.ScorerType, req.ParametersJson = "no-hit-lru-scorer", nil
				r, err := s.client.Score(t.Context(), req)
				return err == nil && cmp.Equal(want, r.GetScores())
			})
		}
	}
	both("three unused", 99, 1, .5, 0)
	tell("a", true, 11)
	both("A was used", 99, 0, 1, .5)
	tell("b", false, 11)
	both("a prompt that is cached", 11, .5, .5, .5)
	both("B was given a warm one", 99, 0, 1, .5)
	tell("b", true, 12)
	both("then B: C is best", 99, .5, 0, 1)
	tell("c", true, 13)
	both("then C: A is best", 99, 1, .5, 0)

	// One that starts now has heard of none of it, and copies the order.
	third := start(t, url, patient)
	third.table = first.table
	first.publish(3)
	kittest.Eventually(t, "the third is ready", third.ready)
	req := third.request([]uint64{99})
	req.ScorerType, req.ParametersJson = "no-hit-lru-scorer", nil
	r, err := third.client.Score(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float32{1, .5, 0}, r.GetScores()); diff != "" {
		t.Errorf("the newcomer (-want +got):\n%s", diff)
	}
	tell("a", true, 14)
	second = third
	both("then A, for the newcomer too: B is best", 99, 0, 1, .5)
}

// A token brings a client back, by call and on a stream.
func TestSessionAffinityOfThePool(t *testing.T) {
	s := start(t, kittest.NATS(t))
	s.publish(3)
	kittest.Eventually(t, "ready", s.ready)
	req := &scorerv1.ScoreRequest{
		ScorerType: "session-affinity-scorer",
		Request: &scorerv1.InferenceRequest{RequestId: "r", Headers: []*scorerv1.Header{
			{Name: "x-session-token", Value: base64.StdEncoding.EncodeToString([]byte("p/b"))},
		}},
		Candidates: &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: s.table.Digest}},
	}
	unary, err := s.client.Score(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float32{0, 1, 0}, unary.GetScores()); diff != "" {
		t.Error(diff)
	}
	streamed := s.stream(&scorerv1.ScoreStreamRequest{RouterId: "r", Calls: []*scorerv1.StreamCall{{CallId: 1, TimeoutUs: 10e6, Request: req}}})[1].GetResponse()
	if diff := cmp.Diff(unary, streamed, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}
