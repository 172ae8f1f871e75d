package scorer

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// notes keeps what a type was asked, in a copy.
func notes(s *stub) *[]*scorerv1.ScoreRequest {
	var got []*scorerv1.ScoreRequest
	s.score = func(_ context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
		got = append(got, clone(req))
		Scores(out, len(req.GetListed().GetCandidates()))
		return nil
	}
	return &got
}

func TestATaughtTableIsResolved(t *testing.T) {
	typ := newStub("a")
	got := notes(typ)
	r := connect(t, dial(t, newServer(t, typ)))
	began := time.Now()
	r.send(&scorerv1.ScoreStreamRequest{Tables: []*scorerv1.TaughtTable{table3(7)}})
	r.call(byTable("a", 7))
	r.send(&scorerv1.ScoreStreamRequest{Loads: []*scorerv1.TaughtLoads{{
		TableDigest:           7,
		AgeMs:                 []int32{10, -1, 30},
		WaitingRequestCounts:  []int32{1, 2, -1},
		RunningRequestCounts:  []int32{0, 5, 6},
		KvCacheUsageRatios:    []float32{0.5, 0.25, -1},
		CreditedRequestCounts: []uint32{3, 4, 0},
		CreditedTokenCounts:   []uint32{30, 0, 0},
		Adapters:              []*scorerv1.PositionedAdapters{{Position: 2, Adapters: &scorerv1.Adapters{Running: []string{"l"}}}},
	}}})
	r.call(byTable("a", 7), byTable("a", 7, 0, 2))
	r.send(&scorerv1.ScoreStreamRequest{Loads: []*scorerv1.TaughtLoads{{TableDigest: 7, AgeMs: []int32{0, 0, 0}, WaitingRequestCounts: []int32{9, 9, 9}}}})
	r.call(byTable("a", 7, 2))
	r.send(&scorerv1.ScoreStreamRequest{Tables: []*scorerv1.TaughtTable{{TableDigest: 7, Endpoints: []*scorerv1.TableEndpoint{
		{EndpointId: "a"}, {EndpointId: "b"}, {EndpointId: "c", Labels: []*scorerv1.Label{{Name: "zone", Value: "2"}}},
	}}}})
	r.call(byTable("a", 7, 2))

	zone := func(v string) []*scorerv1.Label { return []*scorerv1.Label{{Name: "zone", Value: v}} }
	a := &scorerv1.Candidate{EndpointId: "a", Labels: zone("1"), Load: &scorerv1.EndpointLoad{
		WaitingRequestCount: proto.Uint32(1), RunningRequestCount: proto.Uint32(0), KvCacheUsageRatio: proto.Float32(0.5),
		CreditedRequestCount: 3, CreditedTokenCount: 30,
	}}
	b := &scorerv1.Candidate{EndpointId: "b", Load: &scorerv1.EndpointLoad{CreditedRequestCount: 4}}
	c := &scorerv1.Candidate{EndpointId: "c", Load: &scorerv1.EndpointLoad{RunningRequestCount: proto.Uint32(6)},
		Adapters: &scorerv1.Adapters{Running: []string{"l"}}}
	later := &scorerv1.Candidate{EndpointId: "c", Load: &scorerv1.EndpointLoad{WaitingRequestCount: proto.Uint32(9)}}
	relabelled := clone(later)
	relabelled.Labels = zone("2")
	want := [][]*scorerv1.Candidate{
		{{EndpointId: "a", Labels: zone("1")}, {EndpointId: "b"}, {EndpointId: "c"}},
		{a, b, c},
		{a, c},
		{later},
		{relabelled},
	}
	for i, req := range *got {
		if diff := cmp.Diff(want[i], req.GetListed().GetCandidates(), protocmp.Transform(), protocmp.IgnoreFields(&scorerv1.EndpointLoad{}, "observe_time")); diff != "" {
			t.Errorf("call %d (-want +got):\n%s", i, diff)
		}
	}
	for i, ages := range []time.Duration{10 * time.Millisecond, -1, 30 * time.Millisecond} {
		at := (*got)[1].GetListed().GetCandidates()[i].GetLoad().GetObserveTime()
		if (at == nil) != (ages < 0) {
			t.Fatalf("endpoint %d: observe time %v", i, at)
		}
		if at != nil && (at.AsTime().Before(began.Add(-ages)) || at.AsTime().After(time.Now().Add(-ages))) {
			t.Errorf("endpoint %d: observe time %v, want %v before the message came", i, at.AsTime(), ages)
		}
	}
}

func TestReferencesOnAStreamThatCannotBeMet(t *testing.T) {
	typ := newStub("a")
	r := connect(t, dial(t, newServer(t, typ)))
	r.send(&scorerv1.ScoreStreamRequest{Tables: []*scorerv1.TaughtTable{table3(7), {TableDigest: 8}}})
	for _, tc := range []struct {
		name string
		req  *scorerv1.ScoreRequest
		want fault
	}{
		{"never taught", byTable("a", 9), fault{codes.FailedPrecondition, "TABLE_NOT_HELD", "0000000000000009"}},
		{"last position", byTable("a", 7, 2), fault{}},
		{"position beyond the table", byTable("a", 7, 0, 3), fault{codes.InvalidArgument, "INVALID_REQUEST", "table.positions: 3"}},
		{"largest position", byTable("a", 7, math.MaxUint32), fault{codes.InvalidArgument, "INVALID_REQUEST", "table.positions[0]"}},
		{"table without endpoints", byTable("a", 8), fault{codes.InvalidArgument, "INVALID_REQUEST", "no candidates"}},
	} {
		if got := streamFault(r.call(tc.req)[0]); !got.is(tc.want.Code, tc.want.Reason, tc.want.Message) {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestAStreamKeepsTheLastEightTables(t *testing.T) {
	typ := newStub("a")
	r := connect(t, dial(t, newServer(t, typ)))
	held := func(digest uint64) bool { return r.call(byTable("a", digest))[0].GetResponse() != nil }
	for d := uint64(1); d <= 8; d++ {
		r.send(&scorerv1.ScoreStreamRequest{Tables: []*scorerv1.TaughtTable{table3(d)}})
	}
	for d := uint64(1); d <= 8; d++ {
		if !held(d) {
			t.Errorf("table %d of 8 is not held", d)
		}
	}
	// The first is taught again, so the second is the oldest now.
	r.send(&scorerv1.ScoreStreamRequest{Tables: []*scorerv1.TaughtTable{table3(1), table3(9)}})
	for d := uint64(1); d <= 9; d++ {
		if got, want := held(d), d != 2; got != want {
			t.Errorf("table %d: held %t, want %t", d, got, want)
		}
	}
	// Loads of a table that is gone are no fault.
	r.send(&scorerv1.ScoreStreamRequest{Loads: []*scorerv1.TaughtLoads{{TableDigest: 2, AgeMs: []int32{1}}}})
	if !held(9) {
		t.Error("table 9 is not held")
	}
}

func TestAFollowerIsAskedFirst(t *testing.T) {
	typ := newStub("a")
	typ.follows = true
	var got []string
	typ.score = func(_ context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
		if ref := req.GetTable(); ref != nil {
			got = append(got, fmt.Sprintf("table %d %v pending %t", ref.GetTableDigest(), ref.GetPositions(), req.GetPending() != nil))
			Scores(out, 3)[0] = 1 // of no importance if the table is not held
			if ref.GetTableDigest() != 1 {
				return TableNotHeld(ref.GetTableDigest())
			}
			return nil
		}
		list := req.GetListed().GetCandidates()
		got = append(got, fmt.Sprintf("listed %d from %s pending %t", len(list), list[0].GetEndpointId(), req.GetPending() != nil))
		Scores(out, len(list))
		return nil
	}
	r := connect(t, dial(t, newServer(t, typ)))
	r.send(&scorerv1.ScoreStreamRequest{Tables: []*scorerv1.TaughtTable{table3(1), table3(2)}})
	second := byTable("a", 2, 1, 2)
	second.Pending = &scorerv1.PendingPicks{RouterId: "r"}
	answers := r.call(byTable("a", 1), second, byTable("a", 3))
	want := []string{"table 1 [] pending false", "table 2 [1 2] pending true", "listed 2 from b pending false", "table 3 [] pending false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float32{1, 0, 0}, answers[0].GetResponse().GetScores()); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float32{0, 0}, answers[1].GetResponse().GetScores()); diff != "" {
		t.Errorf("taught only (-want +got):\n%s", diff)
	}
	if f := streamFault(answers[2]); f.Reason != ReasonTableNotHeld {
		t.Errorf("neither: %+v", f)
	}
}

func TestAFollowersAnswerIsMeasuredByTheTaughtTable(t *testing.T) {
	typ := newStub("a")
	typ.follows = true
	typ.score = func(_ context.Context, _ any, _ *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
		Scores(out, 4)
		return nil
	}
	r := connect(t, dial(t, newServer(t, typ)))
	r.send(&scorerv1.ScoreStreamRequest{Tables: []*scorerv1.TaughtTable{table3(1)}})
	if f := streamFault(r.call(byTable("a", 1))[0]); !f.is(codes.Internal, "", "scores: 4 for 3") {
		t.Errorf("%+v", f)
	}
}

func TestMalformedBatchesEndTheStream(t *testing.T) {
	loads := func(set func(*scorerv1.TaughtLoads)) *scorerv1.ScoreStreamRequest {
		l := &scorerv1.TaughtLoads{TableDigest: 7}
		set(l)
		return &scorerv1.ScoreStreamRequest{Loads: []*scorerv1.TaughtLoads{l}}
	}
	table := func(digest uint64, ids ...string) *scorerv1.ScoreStreamRequest {
		m := &scorerv1.TaughtTable{TableDigest: digest}
		for _, id := range ids {
			m.Endpoints = append(m.Endpoints, &scorerv1.TableEndpoint{EndpointId: id})
		}
		return &scorerv1.ScoreStreamRequest{Tables: []*scorerv1.TaughtTable{m}}
	}
	cases := []struct {
		name  string
		batch *scorerv1.ScoreStreamRequest
		want  string
	}{
		{"no digest", table(0, "a"), "table_digest missing"},
		{"too many endpoints", table(1, ids(4097)...), "4097 endpoints"},
		{"no id", table(1, ""), "endpoint 0 has an id of 0 bytes"},
		{"id too long", table(1, strings.Repeat("x", 129)), "129 bytes"},
		{"not ascending", table(1, "b", "a"), "endpoint 1 is not in ascending order"},
		{"twice", table(1, "a", "a"), "endpoint 1 is not in ascending order"},
		{"ages", loads(func(l *scorerv1.TaughtLoads) { l.AgeMs = make([]int32, 2) }), "age_ms has 2 entries for 3"},
		{"waiting", loads(func(l *scorerv1.TaughtLoads) { l.WaitingRequestCounts = make([]int32, 4) }), "waiting_request_counts has 4"},
		{"running", loads(func(l *scorerv1.TaughtLoads) { l.RunningRequestCounts = make([]int32, 4) }), "running_request_counts has 4"},
		{"usage", loads(func(l *scorerv1.TaughtLoads) { l.KvCacheUsageRatios = make([]float32, 4) }), "kv_cache_usage_ratios has 4"},
		{"credits", loads(func(l *scorerv1.TaughtLoads) { l.CreditedRequestCounts = make([]uint32, 4) }), "credited_request_counts has 4"},
		{"tokens", loads(func(l *scorerv1.TaughtLoads) { l.CreditedTokenCounts = make([]uint32, 4) }), "credited_token_counts has 4"},
		{"usage above 1", loads(func(l *scorerv1.TaughtLoads) { l.KvCacheUsageRatios = []float32{0, 1.5, 0} }), "kv_cache_usage_ratios[1]: 1.5"},
		{"usage NaN", loads(func(l *scorerv1.TaughtLoads) { l.KvCacheUsageRatios = []float32{0, 0, float32(math.NaN())} }), "kv_cache_usage_ratios[2]: NaN"},
		{"adapters of nobody", loads(func(l *scorerv1.TaughtLoads) { l.Adapters = []*scorerv1.PositionedAdapters{{Position: 3}} }), "adapters of position 3"},
	}
	c := dial(t, newServer(t, newStub("a")))
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			r := connect(t, c)
			r.send(&scorerv1.ScoreStreamRequest{Tables: []*scorerv1.TaughtTable{table3(7)}})
			r.send(tc.batch)
			if f := unaryFault(t, r.end()); !f.is(codes.InvalidArgument, "INVALID_REQUEST", tc.want) {
				t.Errorf("the stream ends with %+v, want %s", f, tc.want)
			}
		})
	}
	t.Run("no router id", func(t *testing.T) {
		stream, err := c.ScoreStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := &router{t: t, stream: stream}
		r.send(&scorerv1.ScoreStreamRequest{Calls: []*scorerv1.StreamCall{streamCall(1, listed("a", "x"))}})
		if f := unaryFault(t, r.end()); !f.is(codes.InvalidArgument, "INVALID_REQUEST", "router_id") {
			t.Errorf("the stream ends with %+v", f)
		}
	})
	t.Run("not listed", func(t *testing.T) {
		stream, err := dial(t, newServerWith(t, DefaultConfig(), nil, newStub("a"))).ScoreStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := &router{t: t, stream: stream}
		if f := unaryFault(t, r.end()); !f.is(codes.Unimplemented, "", "CAPABILITY_STREAM") {
			t.Errorf("the stream ends with %+v", f)
		}
	})
	t.Run("closed by the router", func(t *testing.T) {
		r := connect(t, c)
		if err := r.stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := r.end(); status.Code(err) != codes.Unknown || err.Error() != "EOF" {
			t.Errorf("the stream ends with %v, want EOF", err)
		}
	})
}

func TestACallWhoseTimeIsOverIsNotBegun(t *testing.T) {
	typ := newStub("a")
	typ.score = func(ctx context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
		if req.GetRequest().GetModel() == "slow" {
			time.Sleep(20 * time.Millisecond)
		}
		Scores(out, 1)
		return nil
	}
	r := connect(t, dial(t, newServer(t, typ)))
	slow := listed("a", "x")
	slow.Request.Model = "slow"
	r.send(&scorerv1.ScoreStreamRequest{Calls: []*scorerv1.StreamCall{
		streamCall(1, slow),
		{CallId: 2, TimeoutUs: 5000, Request: listed("a", "x")},
		{CallId: 3, Request: listed("a", "x")},
		streamCall(0, listed("a", "x")),
	}})
	got := r.receive(0, 1, 2, 3)
	if f := streamFault(got[2]); f.Code != codes.DeadlineExceeded {
		t.Errorf("a call whose time is over: %v", got[2])
	}
	if f := streamFault(got[3]); !f.is(codes.InvalidArgument, "INVALID_REQUEST", "timeout_us: missing") {
		t.Errorf("a call without a time: %v", got[3])
	}
	for _, id := range []uint64{0, 1} {
		if got[id].GetResponse() == nil {
			t.Errorf("call %d: %v", id, got[id])
		}
	}
	if n := typ.scores.Load(); n != 2 {
		t.Errorf("the type was called %d times, want 2", n)
	}
}

func TestACallKnowsItsTimeAndTrace(t *testing.T) {
	typ := newStub("a")
	var given atomic.Int64 // the time of the call, in µs
	typ.score = func(ctx context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
		out.Explanations = []*scorerv1.Explanation{{Text: "trace " + Traceparent(ctx)}}
		if d, ok := ctx.Deadline(); !ok || time.Until(d).Microseconds() > given.Load() {
			t.Errorf("deadline %v, %t", d, ok)
		}
		switch req.GetRequest().GetModel() {
		case "wait":
			<-ctx.Done()
			return ctx.Err()
		case "poll":
			for ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			return ctx.Err()
		}
		Scores(out, 1)
		return nil
	}
	r := connect(t, dial(t, newServer(t, typ)))
	for i, model := range []string{"wait", "poll", ""} {
		given.Store(30_000)
		if model == "" {
			given.Store(60_000_000)
		}
		req := listed("a", "x")
		req.Request.Model, req.Explain = model, true
		id := uint64(i + 1)
		r.send(&scorerv1.ScoreStreamRequest{Calls: []*scorerv1.StreamCall{{CallId: id, TimeoutUs: uint32(given.Load()), Request: req, Traceparent: "00-x-y-01"}}})
		a := r.receive(id)[id]
		if model == "" {
			if got := a.GetResponse().GetExplanations()[0].GetText(); got != "trace 00-x-y-01" {
				t.Errorf("%q", got)
			}
		} else if f := streamFault(a); f.Code != codes.DeadlineExceeded {
			t.Errorf("%s: %v", model, a)
		}
	}
	if got := Traceparent(t.Context()); got != "" {
		t.Errorf("a unary call has the trace %q", got)
	}
}

func TestCancelledCallsAreDropped(t *testing.T) {
	typ := newStub("a")
	r := connect(t, dial(t, newServer(t, typ)))
	r.send(&scorerv1.ScoreStreamRequest{
		Calls:            []*scorerv1.StreamCall{streamCall(1, listed("a", "x")), streamCall(2, listed("a", "x")), streamCall(3, listed("a", "x"))},
		CancelledCallIds: []uint64{2, 99},
	})
	r.receive(1, 3)
	// One that comes too late changes nothing; a batch without calls gets no answer.
	r.send(&scorerv1.ScoreStreamRequest{CancelledCallIds: []uint64{1, 3}})
	r.last = 10
	r.call(listed("a", "x"))
	if n := typ.scores.Load(); n != 3 {
		t.Errorf("the type was called %d times, want 3", n)
	}
}

func TestAnswersOfABatchDoNotMix(t *testing.T) {
	typ := newStub("a")
	full := &scorerv1.ScoreResponse{
		Scores: []float32{1, 1}, AbstainedIndices: []uint32{1}, AbstainReason: 1, MatchedBlockCounts: []uint32{3, 4},
		AppliedOutcomeSequence: 9, Explanations: []*scorerv1.Explanation{{Text: "x"}}, StateAge: durationpb.New(1), RequestsPerPoint: 8,
	}
	// A field that the contract gains must be emptied between answers too.
	fields := full.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); f.Name() != "abstained_on_all" && !full.ProtoReflect().Has(f) {
			t.Errorf("%s is not tried: set it", f.Name())
		}
	}
	typ.score = func(_ context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
		if !proto.Equal(out, &scorerv1.ScoreResponse{}) {
			t.Errorf("the answer is not empty at first: %v", out)
		}
		switch req.GetRequest().GetModel() {
		case "full":
			proto.Merge(out, full)
		case "all":
			proto.Merge(out, full)
			out.MatchedBlockCounts = nil
			AbstainAll(out, scorerv1.AbstainReason_ABSTAIN_REASON_STALE_STATE)
		case "fail":
			proto.Merge(out, full)
			return Overloaded("full")
		default:
			Scores(out, 2)
			MatchedBlocks(out, 2)
			Abstain(out, 0, scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE)
		}
		return nil
	}
	s := newServer(t, typ)
	r := connect(t, dial(t, s))
	for range 3 {
		var reqs []*scorerv1.ScoreRequest
		for _, model := range []string{"full", "", "fail", "all", "full", "", "", "fail"} {
			req := listed("a", "x", "y")
			req.Request.Model, req.Explain = model, true
			reqs = append(reqs, req)
		}
		for i, a := range r.call(reqs...) {
			want, err := s.Score(t.Context(), reqs[i])
			if diff := cmp.Diff(want, a.GetResponse(), protocmp.Transform()); diff != "" {
				t.Errorf("call %d, unary and stream:\n%s", i, diff)
			}
			if err != nil && unaryFault(t, err) != streamFault(a) {
				t.Errorf("call %d: unary %v, stream %v", i, err, a)
			}
		}
	}
}

func TestLargeBatchesAreAnsweredInParts(t *testing.T) {
	typ := newStub("a")
	r := connect(t, dial(t, newServer(t, typ)))
	big := &scorerv1.TaughtTable{TableDigest: 1}
	for _, id := range ids(4096) {
		big.Endpoints = append(big.Endpoints, &scorerv1.TableEndpoint{EndpointId: id})
	}
	r.send(&scorerv1.ScoreStreamRequest{Tables: []*scorerv1.TaughtTable{big}})
	// 400 answers of 16 KiB: more than a gRPC client takes in one message.
	reqs := make([]*scorerv1.ScoreRequest, 400)
	for i := range reqs {
		reqs[i] = byTable("a", 1)
	}
	for i, a := range r.call(reqs...) {
		if len(a.GetResponse().GetScores()) != 4096 {
			t.Fatalf("answer %d: %v", i, a)
		}
	}
}

func TestDrain(t *testing.T) {
	typ := newStub("a")
	entered, release := make(chan struct{}), make(chan struct{})
	typ.score = func(_ context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
		if req.GetRequest().GetModel() == "wait" {
			close(entered)
			<-release
		}
		Scores(out, 1)
		return nil
	}
	s := newServer(t, typ)
	c := dial(t, s)
	idle, busy := connect(t, c), connect(t, c)
	idle.call(listed("a", "x"))
	req := listed("a", "x")
	req.Request.Model = "wait"
	busy.send(&scorerv1.ScoreStreamRequest{Calls: []*scorerv1.StreamCall{streamCall(1, req), streamCall(2, listed("a", "x"))}})
	<-entered

	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- s.DrainAtEnd(ctx, func() { close(ready) }) }()
	<-ready
	idle.call(listed("a", "x"))
	cancel()
	if err := <-done; err != nil {
		t.Errorf("DrainAtEnd = %v", err)
	}
	s.Drain() // again

	want := fault{codes.Unavailable, "", "this replica is shutting down; go to another"}
	if f := unaryFault(t, idle.end()); f != want {
		t.Errorf("the idle stream ends with %+v", f)
	}
	close(release)
	for id, a := range busy.receive(1, 2) {
		if a.GetResponse() == nil {
			t.Errorf("call %d of the batch under way: %v", id, a)
		}
	}
	if f := unaryFault(t, busy.end()); f != want {
		t.Errorf("the busy stream ends with %+v", f)
	}
	stream, err := c.ScoreStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f := unaryFault(t, (&router{t: t, stream: stream}).end()); f != want {
		t.Errorf("a new stream ends with %+v", f)
	}
	if _, err := c.Score(t.Context(), listed("a", "x")); err != nil {
		t.Errorf("a unary call: %v", err)
	}
}
