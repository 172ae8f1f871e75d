package bus

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

func outcomes() *statev1.OutcomeBatch {
	return &statev1.OutcomeBatch{
		Stamp: &statev1.Stamp{PublisherId: "router-1", Sequence: 7, PublishTime: timestamppb.Now()},
		Events: []*statev1.OutcomeEvent{
			{PickId: 1, Event: &statev1.OutcomeEvent_Picked{Picked: &statev1.Picked{EndpointId: "a", PromptTokenCount: 100, UncachedTokenCount: 50}}},
			{PickId: 1, Event: &statev1.OutcomeEvent_Finished{Finished: &statev1.Finished{}}},
		},
	}
}

// What goes by generated code is read by those who do not have it, and the other way
// round.
func TestEncodingIsTheSame(t *testing.T) {
	placed := &statev1.PrefixBatch{Stamp: &statev1.Stamp{PublisherId: "r", Sequence: 1}, Placements: []*statev1.PrefixPlacement{{EndpointId: "a", Scheme: "s", BlockSizeBytes: 64, Hashes: []uint64{1, 1 << 63}}}}
	for _, tc := range []struct {
		subject Subject
		m       proto.Message
	}{{Outcome, outcomes()}, {Outcome, &statev1.OutcomeBatch{}}, {Prefix, placed}, {Load, &statev1.EndpointLoads{TableDigest: 5, WaitingRequestCounts: []int32{-1, 3}}}} {
		kept := make([]byte, 0, 8)
		b, err := encode(tc.subject, kept, tc.m)
		if err != nil {
			t.Fatal(err)
		}
		back := tc.m.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(b, back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.m, back, protocmp.Transform()); diff != "" {
			t.Errorf("%s: others read: %s", tc.subject, diff)
		}
		if b, err = proto.Marshal(tc.m); err != nil {
			t.Fatal(err)
		}
		proto.Reset(back)
		if err := decode(tc.subject, b, back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.m, back, protocmp.Transform()); diff != "" {
			t.Errorf("%s: we read: %s", tc.subject, diff)
		}
	}
}

// FuzzDecode reads what anybody on the bus may send.
func FuzzDecode(f *testing.F) {
	b, err := proto.Marshal(outcomes())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, s := range []Subject{Outcome, Prefix} {
			m, want := proto.Message(&statev1.OutcomeBatch{}), proto.Message(&statev1.OutcomeBatch{})
			if s == Prefix {
				m, want = &statev1.PrefixBatch{}, &statev1.PrefixBatch{}
			}
			if decode(s, b, m) == nil && proto.Unmarshal(b, want) == nil && !cmp.Equal(want, m, protocmp.Transform(), protocmp.IgnoreUnknown()) {
				t.Fatalf("%s: %v, where others see %v", s, m, want)
			}
		}
	})
}

func BenchmarkDecodeOutcomes(b *testing.B) {
	text, err := proto.Marshal(outcomes())
	if err != nil {
		b.Fatal(err)
	}
	for name, f := range map[string]func([]byte, proto.Message) error{
		"generated": func(b []byte, m proto.Message) error { return decode(Outcome, b, m) },
		"reflected": proto.Unmarshal,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f(text, &statev1.OutcomeBatch{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
