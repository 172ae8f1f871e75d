package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

func finished(id uint64) *statev1.OutcomeEvent {
	return &statev1.OutcomeEvent{PickId: id, Event: &statev1.OutcomeEvent_Finished{Finished: &statev1.Finished{Completed: true}}}
}

// F16: a pick counts from when a router tells of it until it tells of the end, and a
// router that leaves takes its picks with it.
func TestF16InFlightOverTheBroadcast(t *testing.T) {
	s := start(t)
	s.publish([]int32{0, 0}, []int32{0, 0})
	tell := func(m *statev1.OutcomeBatch) {
		if err := s.outcomes.Publish(m); err != nil {
			t.Fatal(err)
		}
	}
	scores := func(scorerType string, want ...float32) func() bool {
		return func() bool {
			req := s.request(scorerType)
			if scorerType == "token-load-scorer" {
				req.ParametersJson = []byte(`{"queueThresholdTokens":1000}`)
			}
			r, err := s.client.Score(t.Context(), req)
			return err == nil && cmp.Equal(r.GetScores(), want)
		}
	}
	first := picked(1, "a")
	first.GetPicked().UncachedTokenCount = 500
	tell(&statev1.OutcomeBatch{Events: []*statev1.OutcomeEvent{first}})
	kittest.Eventually(t, "A is busy", scores("active-request-scorer", 0, 1))
	kittest.Eventually(t, "A has tokens in flight", scores("token-load-scorer", .5, 1))
	tell(&statev1.OutcomeBatch{Events: []*statev1.OutcomeEvent{finished(1)}})
	kittest.Eventually(t, "A is idle", scores("active-request-scorer", 1, 1))
	kittest.Eventually(t, "A has no tokens in flight", scores("token-load-scorer", 1, 1))
	tell(&statev1.OutcomeBatch{Events: []*statev1.OutcomeEvent{picked(2, "b")}})
	kittest.Eventually(t, "B is busy", scores("active-request-scorer", 1, 0))
	tell(&statev1.OutcomeBatch{Leaving: true})
	kittest.Eventually(t, "the router has left", scores("active-request-scorer", 1, 1))
}

// Every type answers alike by call and on a stream, with pending picks and words.
func TestUnaryEqualsStream(t *testing.T) {
	s := start(t)
	s.publish([]int32{10, 5, 0}, []int32{3, 1, 2})
	info, err := s.client.GetScorerInfo(t.Context(), &scorerv1.GetScorerInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range info.GetTypes() {
		req := s.request(typ.GetName())
		req.Explain, req.Request.PromptTokenCount = true, proto.Uint32(700)
		req.Pending = &scorerv1.PendingPicks{RouterId: "router-9", Sequences: []uint64{1, 2}, Positions: []uint32{0, 2}, UncachedTokenCounts: []uint32{5, 50000}}
		unary, err := s.client.Score(t.Context(), req)
		if err != nil {
			t.Fatalf("%s: %v", typ.GetName(), err)
		}
		if len(unary.GetScores()) != 3 || len(unary.GetExplanations()) != 3 {
			t.Errorf("%s: %v", typ.GetName(), unary)
		}
		streamed := s.stream(&scorerv1.ScoreStreamRequest{RouterId: "router-9", Calls: []*scorerv1.StreamCall{{CallId: 1, TimeoutUs: 10e6, Request: req}}})[1].GetResponse()
		if diff := cmp.Diff(unary, streamed, protocmp.Transform(), protocmp.IgnoreFields(unary, "state_age")); diff != "" {
			t.Errorf("%s, unary and stream differ:\n%s", typ.GetName(), diff)
		}
	}
}
