package state

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/follower"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// background runs f until the test ends.
func background(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

// pool is what a collector and a router would tell.
type pool struct {
	table    *roster.Table
	tables   *bus.Publisher[*statev1.EndpointTable]
	loads    *bus.Publisher[*statev1.EndpointLoads]
	outcomes *bus.Publisher[*statev1.OutcomeBatch]
}

func newPool(t *testing.T, url string) *pool {
	t.Helper()
	cfg := bus.DefaultConfig()
	cfg.URL = url
	b, err := bus.New(cfg, "p", "the-others", telemetry.Discard())
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{
		tables:   bus.NewPublisher(b, bus.Table, func(m *statev1.EndpointTable, s *statev1.Stamp) { m.Stamp = s }),
		loads:    bus.NewPublisher(b, bus.Load, func(m *statev1.EndpointLoads, s *statev1.Stamp) { m.Stamp = s }),
		outcomes: bus.NewPublisher(b, bus.Outcome, func(m *statev1.OutcomeBatch, s *statev1.Stamp) { m.Stamp = s }),
	}
	connected := make(chan struct{})
	background(t, func(ctx context.Context) error { return b.Part()(ctx, func() { close(connected) }) })
	<-connected
	p.table, err = roster.NewTable([]roster.Endpoint{
		{ID: "a", Host: "127.0.0.1", Port: 8001, Engine: "vllm", Models: []string{"m"}, Labels: []roster.Label{{Name: "zone", Value: "east"}}},
		{ID: "b", Host: "127.0.0.1", Port: 8002},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tell publishes the table and loads once more; subjects overtake each other.
func (p *pool) tell(t *testing.T) {
	t.Helper()
	m := follower.TableProto(p.table)
	m.ChangeTime = timestamppb.Now()
	if err := p.tables.Publish(m); err != nil {
		t.Fatal(err)
	}
	if err := p.loads.Publish(&statev1.EndpointLoads{TableDigest: p.table.Digest, WaitingRequestCounts: []int32{3, -1}, RunningRequestCounts: []int32{0, -1}, KvCacheUsageRatios: []float32{0.5, -1}, AgeMs: []int32{0, -1}}); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T) (*Follower, *pool) {
	t.Helper()
	cfg := DefaultConfig("acme")
	cfg.URL, cfg.Pool = kittest.NATS(t), "p"
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	background(t, f.Run)
	return f, newPool(t, cfg.URL)
}

func TestFollowerKnowsThePool(t *testing.T) {
	f, p := start(t)
	if ready, reason := f.Ready(); ready || reason == "" {
		t.Errorf("ready %t (%s) before anything is known", ready, reason)
	}
	heard := make(chan bool, 64)
	f.OnReady(func(ready bool) { heard <- ready })
	kittest.Eventually(t, "the loads to be known", func() bool {
		p.tell(t)
		all := f.Endpoints()
		return len(all) == 2 && all[0].Fresh
	})
	kittest.Eventually(t, "to be ready", func() bool { ready, _ := f.Ready(); return ready })
	kittest.Eventually(t, "to hear of it", func() bool {
		select {
		case ready := <-heard:
			return ready
		default:
			return false
		}
	})
	all := f.Endpoints()
	a, b := all[0], all[1]
	if a.ID != "a" || !a.Known || a.Address != "127.0.0.1:8001" || a.Engine != "vllm" || !cmp.Equal(a.Models, []string{"m"}) || a.Waiting != 3 || a.Running != 0 || a.KVCacheUsage != 0.5 || a.Age < 0 {
		t.Errorf("endpoint %+v", a)
	}
	if zone, ok := a.Label("zone"); !ok || zone != "east" {
		t.Errorf("label %q", zone)
	}
	if b.Waiting != -1 || b.Running != -1 || b.KVCacheUsage != -1 || b.Age >= 0 || b.Fresh {
		t.Errorf("an endpoint that was never read is %+v", b)
	}
	err := p.outcomes.Publish(&statev1.OutcomeBatch{Events: []*statev1.OutcomeEvent{{
		PickId: 1, Event: &statev1.OutcomeEvent_Picked{Picked: &statev1.Picked{EndpointId: "a", UncachedTokenCount: 7}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the pick to count", func() bool {
		e := f.Endpoints()[0]
		return e.InFlight == 1 && e.CreditedTokens == 7 && e.CreditedRequests == 1
	})
}

func TestCandidatesHoweverTheyAreNamed(t *testing.T) {
	f, p := start(t)
	kittest.Eventually(t, "the table", func() bool { p.tell(t); return len(f.Endpoints()) == 2 })
	byTable := func(digest uint64, positions ...uint32) *scorerv1.ScoreRequest {
		return &scorerv1.ScoreRequest{Candidates: &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: digest, Positions: positions}}}
	}
	listed := &scorerv1.ScoreRequest{Candidates: &scorerv1.ScoreRequest_Listed{Listed: &scorerv1.CandidateList{Candidates: []*scorerv1.Candidate{{EndpointId: "b"}, {EndpointId: "x"}}}}}
	for name, tc := range map[string]struct {
		req    *scorerv1.ScoreRequest
		want   string // ids, those unknown in brackets
		reason string
	}{
		"whole table":   {byTable(p.table.Digest), "a b", ""},
		"a part":        {byTable(p.table.Digest, 1), "b", ""},
		"not held":      {byTable(1), "", scorer.ReasonTableNotHeld},
		"not in there":  {byTable(p.table.Digest, 2), "", scorer.ReasonInvalidRequest},
		"listed by ids": {listed, "b (x)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := f.Candidates(tc.req)
			var e *scorer.Error
			if tc.reason != "" && (!errors.As(err, &e) || e.Reason != tc.reason || e.Code == codes.OK) {
				t.Errorf("error %v", err)
			}
			var ids []string
			for _, c := range all {
				if !c.Known {
					c.ID = "(" + c.ID + ")"
				}
				ids = append(ids, c.ID)
			}
			if got := strings.Join(ids, " "); got != tc.want {
				t.Errorf("candidates %s, want %s", got, tc.want)
			}
		})
	}
	if _, ok := unknown("x").Label("zone"); ok {
		t.Error("a label of nobody")
	}
}

func TestConfigFaultsAreToldAtOnce(t *testing.T) {
	_, err := New(Config{})
	for _, want := range []string{"name", "pool", "staleness", "url"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not speak of %s", err, want)
		}
	}
}
