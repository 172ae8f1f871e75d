package bus

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// FuzzMessage hands any bytes to a subscription: they are handed over once, with
// a stamp, or counted as a fault.
func FuzzMessage(f *testing.F) {
	good, err := proto.Marshal(&statev1.EndpointLoads{
		Stamp:       &statev1.Stamp{PublisherId: "a", Sequence: 3},
		TableDigest: 7, AgeMs: []int32{1, -1}, WaitingRequestCounts: []int32{0, 5},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte(nil))
	f.Add([]byte("\xff"))
	tel := telemetry.Discard()
	b, err := New(DefaultConfig(), "p", "id", tel)
	if err != nil {
		f.Fatal(err)
	}
	handed := 0.0
	s := &subscription[*statev1.EndpointLoads]{
		bus: b, subject: Load, newM: func() *statev1.EndpointLoads { return &statev1.EndpointLoads{} },
		f: func(m *statev1.EndpointLoads, _ Meta) {
			if m.GetStamp().GetPublisherId() == "" || m.GetStamp().GetSequence() == 0 {
				panic("a message without a stamp was handed over")
			}
			handed++
		},
		received: bind(b.meters.received, Load), gaps: bind(b.meters.gaps, Load), lost: bind(b.meters.lost, Load),
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := handed + tel.Value("pointsman_bus_errors_total")
		s.handle(nil, data)
		if after := handed + tel.Value("pointsman_bus_errors_total"); after != before+1 {
			t.Errorf("%x changed the sum of handed over and faults from %v to %v", data, before, after)
		}
	})
}

func BenchmarkPublish(b *testing.B) {
	p, err := New(natsConfig(b), "p", "id", telemetry.Discard())
	if err != nil {
		b.Fatal(err)
	}
	l, err := p.connect(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer l.close()
	p.conn.Store(l.nc)
	out := NewPublisher(p, Load, func(m *statev1.EndpointLoads, s *statev1.Stamp) { m.Stamp = s })
	m := &statev1.EndpointLoads{TableDigest: 1}
	for i := range 128 {
		m.AgeMs = append(m.AgeMs, int32(i))
		m.WaitingRequestCounts = append(m.WaitingRequestCounts, int32(i))
		m.RunningRequestCounts = append(m.RunningRequestCounts, int32(i))
		m.KvCacheUsageRatios = append(m.KvCacheUsageRatios, 0.5)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := out.Publish(m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHandle(b *testing.B) {
	p, err := New(DefaultConfig(), "p", "id", telemetry.Discard())
	if err != nil {
		b.Fatal(err)
	}
	s := &subscription[*statev1.OutcomeBatch]{
		bus: p, subject: Outcome, newM: func() *statev1.OutcomeBatch { return &statev1.OutcomeBatch{} },
		f:        func(*statev1.OutcomeBatch, Meta) {},
		received: bind(p.meters.received, Outcome), gaps: bind(p.meters.gaps, Outcome), lost: bind(p.meters.lost, Outcome),
	}
	data, err := proto.Marshal(&statev1.OutcomeBatch{Stamp: &statev1.Stamp{PublisherId: "router-a", Sequence: 1}, Events: []*statev1.OutcomeEvent{
		{PickId: 1, Event: &statev1.OutcomeEvent_Picked{Picked: &statev1.Picked{EndpointId: "10.0.0.1:8000", PromptTokenCount: 100}}},
	}})
	if err != nil {
		b.Fatal(err)
	}
	s.handle(nil, data)
	b.ReportAllocs()
	for b.Loop() {
		s.tracker.publishers["router-a"].sequence = 0 // so that it is not late
		s.handle(nil, data)
	}
}

func natsConfig(tb testing.TB) Config {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.URL = kittest.NATS(tb)
	return cfg
}
