package app

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// Prefixes in Redis outlive all prefix-indexers, name who served a prompt rather than who
// was sent it, and give way to the index when Redis is gone.
func TestPrefixesInRedis(t *testing.T) {
	server := kittest.StartRedis(t)
	redis := []string{"store=redis", "redis.address=" + server.Address, "redis.budget=200ms"}
	url := kittest.NATS(t)
	s := start(t, url, redis...)
	s.publish(3)
	kittest.Eventually(t, "ready", s.ready)
	kittest.Eventually(t, "it writes", func() bool { return strings.Contains(s.page("/metrics"), "pointsman_prefix_indexer_key_writer 1\n") })

	// a is sent the prompt and fails; b serves it.
	for i, endpoint := range []string{"a", "b"} {
		pick := uint64(i + 1)
		if err := s.prefixes.Publish(&statev1.PrefixBatch{Placements: []*statev1.PrefixPlacement{
			{EndpointId: endpoint, PickId: pick, Scheme: "test", BlockSizeBytes: 64, Hashes: hashes},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	kittest.Eventually(t, "both are learned", func() bool {
		return strings.Contains(s.page("/metrics"), "pointsman_prefix_indexer_placements_total 2\n")
	})
	for i, completed := range []bool{false, true} {
		if err := s.outcomes.Publish(&statev1.OutcomeBatch{Events: []*statev1.OutcomeEvent{
			{PickId: uint64(i + 1), Event: &statev1.OutcomeEvent_Finished{Finished: &statev1.Finished{Completed: completed}}},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	scores := func(s *service) []float32 {
		r, err := s.client.Score(t.Context(), s.request(hashes))
		if err != nil {
			return nil
		}
		return r.GetScores()
	}
	served := []float32{0, 1, 0}
	kittest.Eventually(t, "who served is known", func() bool { return cmp.Equal(served, scores(s)) })

	// One of another NATS, which has heard of nothing.
	other := start(t, kittest.NATS(t), redis...)
	other.publish(3)
	kittest.Eventually(t, "the other is ready", other.ready)
	kittest.Eventually(t, "the other knows", func() bool { return cmp.Equal(served, scores(other)) })

	server.Kill()
	kittest.Eventually(t, "the index is gone by", func() bool { return cmp.Equal([]float32{1, 1, 0}, scores(s)) })
	if !s.ready() {
		t.Error("not ready without Redis")
	}
	if metrics := s.page("/metrics"); !strings.Contains(metrics, `pointsman_prefix_indexer_key_lookups_total{result="local"}`) {
		t.Error("the metrics page does not tell of look-ups in the index")
	}
}
