package outcomes

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// message is a batch with n picks, each with all that can become of it.
func message(n int) *statev1.OutcomeBatch {
	m := &statev1.OutcomeBatch{Stamp: &statev1.Stamp{PublisherId: "router-1", Sequence: 7, PublishTime: timestamppb.Now()}}
	for i := range uint64(n) {
		m.Events = append(m.Events,
			&statev1.OutcomeEvent{PickId: i + 1, Event: &statev1.OutcomeEvent_Picked{Picked: &statev1.Picked{EndpointId: fmt.Sprintf("10.0.0.%d:8000", i), PromptTokenCount: 1600, UncachedTokenCount: 50, AgeMs: 3}}},
			&statev1.OutcomeEvent{PickId: i + 1, Event: &statev1.OutcomeEvent_FirstToken{FirstToken: &statev1.FirstToken{ElapsedMs: 30}}},
			&statev1.OutcomeEvent{PickId: i + 1, Event: &statev1.OutcomeEvent_Finished{Finished: &statev1.Finished{ElapsedMs: 900, Completed: true, PromptTokenCount: proto.Uint32(1500), CachedPromptTokenCount: proto.Uint32(0)}}},
		)
	}
	return m
}

// flat is what a message says, found by the generated code.
func flat(m *statev1.OutcomeBatch) []Event {
	var all []Event
	for _, e := range m.GetEvents() {
		f := Event{PickID: e.GetPickId()}
		switch v := e.GetEvent().(type) {
		case *statev1.OutcomeEvent_Picked:
			f.Kind, f.Endpoint, f.AgeMS = Picked, v.Picked.GetEndpointId(), v.Picked.GetAgeMs()
			f.PromptTokens, f.UncachedTokens = v.Picked.GetPromptTokenCount(), v.Picked.GetUncachedTokenCount()
		case *statev1.OutcomeEvent_FirstToken:
			f.Kind = FirstToken
		case *statev1.OutcomeEvent_Finished:
			f.Kind, f.Completed, f.ReportedTokens, f.ReportedCachedTokens = Finished, v.Finished.GetCompleted(), NotReported, NotReported
			if v.Finished.PromptTokenCount != nil {
				f.ReportedTokens = int64(v.Finished.GetPromptTokenCount())
			}
			if v.Finished.CachedPromptTokenCount != nil {
				f.ReportedCachedTokens = int64(v.Finished.GetCachedPromptTokenCount())
			}
		}
		all = append(all, f)
	}
	return all
}

// same compares a batch with the message that it was read from.
func same(t *testing.T, b *Batch, m *statev1.OutcomeBatch) {
	t.Helper()
	stamp := m.GetStamp()
	if stamp == nil {
		stamp = &statev1.Stamp{}
	}
	if d := cmp.Diff(stamp, b.GetStamp(), protocmp.Transform(), protocmp.IgnoreUnknown()); d != "" {
		t.Errorf("stamp (-message +batch):\n%s", d)
	}
	if len(b.Events) != len(m.GetEvents()) {
		t.Fatalf("%d events, want %d", len(b.Events), len(m.GetEvents()))
	}
	for i, want := range flat(m) {
		if b.Events[i] != want {
			t.Errorf("event %d is %+v, want %+v", i, b.Events[i], want)
		}
	}
	if b.Leaving != m.GetLeaving() {
		t.Errorf("leaving %t", b.Leaving)
	}
}

func TestABatchIsWhatItsMessageSays(t *testing.T) {
	var b Batch // the same for all: nothing of one may show in the next
	for name, m := range map[string]*statev1.OutcomeBatch{
		"every kind": message(3), "empty": {}, "a beat": {Stamp: &statev1.Stamp{PublisherId: "r", Sequence: 9}},
		"leaving":             {Stamp: &statev1.Stamp{PublisherId: "r", Sequence: 10}, Leaving: true},
		"nothing reported":    {Events: []*statev1.OutcomeEvent{{PickId: 1, Event: &statev1.OutcomeEvent_Finished{Finished: &statev1.Finished{}}}}},
		"an event of no kind": {Events: []*statev1.OutcomeEvent{{PickId: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.UnmarshalVT(data); err != nil {
				t.Fatal(err)
			}
			clear(data) // ids must not depend on it
			same(t, &b, m)
			kept := b.Clone()
			if err := b.UnmarshalVT(nil); err != nil {
				t.Fatal(err)
			}
			same(t, kept, m)
		})
	}
}

func TestADeafBatchHearsOnlyThatItsPublisherSpoke(t *testing.T) {
	data, err := proto.Marshal(message(2))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		deaf   string
		events int
	}{{"router-1", 0}, {"router-2", 6}, {"", 6}} {
		b := Batch{Deaf: c.deaf}
		if err := b.UnmarshalVT(data); err != nil {
			t.Fatal(err)
		}
		if len(b.Events) != c.events || b.GetStamp().GetSequence() != 7 {
			t.Errorf("deaf to %q: %d events, sequence %d; want %d and 7", c.deaf, len(b.Events), b.GetStamp().GetSequence(), c.events)
		}
	}
}

func TestReadingAllocatesTheIDsAlone(t *testing.T) {
	data, err := proto.Marshal(message(16))
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	if n := testing.AllocsPerRun(100, func() {
		if err := b.UnmarshalVT(data); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("%v allocations for a batch, want 1", n)
	}
}

// FuzzBatch reads what anybody on the bus may send.
func FuzzBatch(f *testing.F) {
	for _, m := range []*statev1.OutcomeBatch{message(2), {Leaving: true}} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(append(data, data...)) // parts of one message add up
	}
	f.Add([]byte("\x12\x06\x12\x00\x1a\x00\x12\x00"))
	var b Batch
	f.Fuzz(func(t *testing.T, data []byte) {
		err := b.UnmarshalVT(data)
		var m statev1.OutcomeBatch
		if m.UnmarshalVT(data) != nil || proto.Unmarshal(data, &statev1.OutcomeBatch{}) != nil {
			return // it is no batch to one or both of those who read them elsewhere
		}
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		same(t, &b, &m)
	})
}

func BenchmarkRead(b *testing.B) {
	for _, n := range []int{1, 16} {
		data, err := proto.Marshal(message(n))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("picks=%d/flat", n), func(b *testing.B) {
			b.ReportAllocs()
			var batch Batch
			for b.Loop() {
				if err := batch.UnmarshalVT(data); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("picks=%d/message", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := (&statev1.OutcomeBatch{}).UnmarshalVT(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
