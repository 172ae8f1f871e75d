package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

func clone[M proto.Message](m M) M {
	c, _ := proto.Clone(m).(M)
	return c
}

// defect is one thing that a scorer does wrong.
type defect struct {
	check string // that must find it
	name  string
	bare  bool // of a scorer without capabilities
	make  func(*faulty)
}

// answering spoils good answers of Score.
func answering(check, name string, spoil func(*scorerv1.ScoreResponse)) defect {
	return defect{check: check, name: name, make: func(f *faulty) {
		f.score = func(_ int64, _ *scorerv1.ScoreRequest, m *scorerv1.ScoreResponse, err error) (*scorerv1.ScoreResponse, error) {
			if err == nil {
				spoil(m)
			}
			return m, err
		}
	}}
}

// informing spoils what it says of itself.
func informing(check, name string, spoil func(m *scorerv1.GetScorerInfoResponse, nth int64)) defect {
	return defect{check: check, name: name, make: func(f *faulty) { f.info = spoil }}
}

// validating spoils verdicts.
func validating(check, name string, spoil func(*scorerv1.ValidateParametersRequest, *scorerv1.ValidateParametersResponse, error) (*scorerv1.ValidateParametersResponse, error)) defect {
	return defect{check: check, name: name, make: func(f *faulty) { f.validate = spoil }}
}

// saying spoils answers on the stream.
func saying(check, name string, spoil func(*scorerv1.ScoreStreamResponse) *scorerv1.ScoreStreamResponse) defect {
	return defect{check: check, name: name, make: func(f *faulty) { f.said = spoil }}
}

// hearing spoils what it understands of the stream.
func hearing(check, name string, spoil func(*scorerv1.ScoreStreamRequest)) defect {
	return defect{check: check, name: name, make: func(f *faulty) { f.heard = spoil }}
}

// refusing is the error that the rules know where err is one.
func refusing(f *faulty, code codes.Code, with func(*scorerv1.ScoreRequest) bool) {
	f.before = func(_ context.Context, _ int64, req *scorerv1.ScoreRequest) error {
		if with(req) {
			return status.Error(code, "no")
		}
		return nil
	}
}

func n(req *scorerv1.ScoreRequest) int { return len(req.GetListed().GetCandidates()) }

func unknownFields(m proto.Message) bool { return len(m.ProtoReflect().GetUnknown()) > 0 }

func defects() []defect {
	all := append(serviceDefects(), parameterDefects()...)
	all = append(all, scoreDefects()...)
	return append(all, streamDefects()...)
}

type notServing struct{ *health.Server }

func (notServing) Check(context.Context, *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	return &healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_NOT_SERVING}, nil
}

type unwatched struct{ healthv1.HealthServer }

func (unwatched) Watch(*healthv1.HealthCheckRequest, healthv1.Health_WatchServer) error {
	return status.Error(codes.Unimplemented, "no")
}

func serviceDefects() []defect {
	return []defect{
		{"health-service", "no health service", false, func(f *faulty) { f.health = nil }},
		{"health-service", "health under another name", false, func(f *faulty) { f.health = health.NewServer() }},
		{"health-serving", "never warm", false, func(f *faulty) { f.health = notServing{health.NewServer()} }},
		{"health-watch", "no watch", false, func(f *faulty) { f.health = unwatched{f.health} }},
		informing("info-form", "no name", func(m *scorerv1.GetScorerInfoResponse, _ int64) { m.Name = "" }),
		informing("info-form", "no version", func(m *scorerv1.GetScorerInfoResponse, _ int64) { m.Version = "" }),
		informing("info-form", "no types", func(m *scorerv1.GetScorerInfoResponse, _ int64) { m.Types = nil }),
		informing("info-types", "an alias with capitals", func(m *scorerv1.GetScorerInfoResponse, _ int64) { m.Types[0].Aliases = []string{"Ref"} }),
		informing("info-types", "an alias that is the name", func(m *scorerv1.GetScorerInfoResponse, _ int64) { m.Types[0].Aliases = []string{"reference"} }),
		informing("info-needs", "an input that there is not", func(m *scorerv1.GetScorerInfoResponse, _ int64) {
			m.Types[0].DefaultNeeds.RequiredInputs = []scorerv1.Input{999}
		}),
		informing("info-needs", "headers without names", func(m *scorerv1.GetScorerInfoResponse, _ int64) { m.Types[0].DefaultNeeds.HeaderNames = nil }),
		informing("info-schema", "a schema in YAML", func(m *scorerv1.GetScorerInfoResponse, _ int64) { m.Types[0].ParametersSchema = "type: object" }),
		informing("info-size", "a novel for a description", func(m *scorerv1.GetScorerInfoResponse, _ int64) { m.Types[0].Description = strings.Repeat("x", 2<<20) }),
		informing("info-constant", "another version each time", func(m *scorerv1.GetScorerInfoResponse, nth int64) { m.Version = strings.Repeat("1", int(nth)) }),
		{"capability-implemented", "no stream", false, func(f *faulty) {
			f.stream = func(grpc.BidiStreamingServer[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse]) error {
				return status.Error(codes.Unimplemented, "no")
			}
		}},
		{"capability-implemented", "no outcomes", false, func(f *faulty) {
			f.report = func(*scorerv1.ReportOutcomesRequest) error { return status.Error(codes.Unimplemented, "no") }
		}},
		{"capability-unlisted", "a stream that is not listed", true, func(f *faulty) {
			f.stream = func(s grpc.BidiStreamingServer[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse]) error {
				_, err := s.Recv()
				return err
			}
		}},
		{"outcomes-accepted", "endpoints must be known", false, func(f *faulty) {
			f.report = func(*scorerv1.ReportOutcomesRequest) error { return status.Error(codes.NotFound, "who?") }
		}},
		{"outcomes-gap", "sequences without gaps are demanded", false, func(f *faulty) {
			var last atomic.Uint64
			f.report = func(m *scorerv1.ReportOutcomesRequest) error {
				if old := last.Swap(m.GetBatchSequence()); old > 0 && m.GetBatchSequence() > old+1 {
					return status.Error(codes.OutOfRange, "a gap")
				}
				return nil
			}
		}},
		{"outcomes-unknown", "events must be known", false, func(f *faulty) {
			f.report = func(m *scorerv1.ReportOutcomesRequest) error {
				for _, o := range m.GetOutcomes() {
					if o.GetEvent() == nil {
						return status.Error(codes.InvalidArgument, "no event")
					}
				}
				return nil
			}
		}},
	}
}

func parameterDefects() []defect {
	type request = scorerv1.ValidateParametersRequest
	type response = scorerv1.ValidateParametersResponse
	accept := &response{Needs: needs()}
	return []defect{
		validating("parameters-accepted", "refuses its defaults", func(*request, *response, error) (*response, error) {
			return &response{Faults: []*scorerv1.ParameterFault{{Message: "no"}}}, nil
		}),
		validating("parameters-needs", "needs blocks of no size", func(_ *request, m *response, err error) (*response, error) {
			if m.GetNeeds() != nil {
				m.Needs.PrefixBlockSizeBytes = 0
			}
			return m, err
		}),
		validating("parameters-object", "takes a list", func(req *request, m *response, err error) (*response, error) {
			if bytes.HasPrefix(req.GetParametersJson(), []byte("[")) {
				return accept, nil
			}
			return m, err
		}),
		validating("parameters-unknown-key", "takes any key", func(req *request, m *response, err error) (*response, error) {
			if bytes.Contains(req.GetParametersJson(), []byte("noSuch")) {
				return accept, nil
			}
			return m, err
		}),
		validating("parameters-fault-words", "says nothing", func(_ *request, m *response, err error) (*response, error) {
			for _, f := range m.GetFaults() {
				f.Message = ""
			}
			return m, err
		}),
		validating("parameters-unknown-type", "takes any type", func(_ *request, m *response, err error) (*response, error) {
			if m == nil {
				return accept, nil
			}
			return m, err
		}),
		validating("parameters-effective", "tells no JSON", func(_ *request, m *response, err error) (*response, error) {
			if m.GetNeeds() != nil {
				m.EffectiveParametersJson = []byte("salt: x")
			}
			return m, err
		}),
		validating("parameters-effective", "refuses its own", func(_ *request, m *response, err error) (*response, error) {
			if m.GetNeeds() != nil {
				m.EffectiveParametersJson = []byte(`{"pepper":1}`)
			}
			return m, err
		}),
		{"parameters-score", "Score takes what was refused", false, func(f *faulty) {
			f.before = func(_ context.Context, _ int64, req *scorerv1.ScoreRequest) error {
				req.ParametersJson = nil
				return nil
			}
		}},
	}
}

func scoreDefects() []defect {
	nan := float32(math.NaN())
	type request = scorerv1.ScoreRequest
	type response = scorerv1.ScoreResponse
	return []defect{
		answering("score-count", "one too few", func(m *response) { m.Scores = m.Scores[1:] }),
		answering("score-count", "scores although it abstains on all", func(m *response) { m.AbstainedOnAll = true }),
		answering("score-range", "NaN", func(m *response) { m.Scores[0], m.AbstainedIndices = nan, nil }),
		answering("score-range", "above 1", func(m *response) { m.Scores[0], m.AbstainedIndices = 7, nil }),
		answering("score-abstained", "nobody's position", func(m *response) { m.AbstainedIndices = []uint32{uint32(len(m.Scores))} }),
		answering("score-abstained", "twice", func(m *response) { m.AbstainedIndices = []uint32{0, 0} }),
		answering("score-abstain-reason", "no reason", func(m *response) {
			m.AbstainedIndices, m.AbstainReason = []uint32{0}, scorerv1.AbstainReason_ABSTAIN_REASON_UNSPECIFIED
		}),
		answering("score-matched", "too few", func(m *response) { m.MatchedBlockCounts = append(m.MatchedBlockCounts, 0) }),
		answering("score-matched", "more than were sent", func(m *response) { m.MatchedBlockCounts[0] = 1000 }),
		answering("score-state-age", "from the future", func(m *response) { m.StateAge = durationpb.New(-time.Second) }),
		answering("score-requests-per-point", "NaN", func(m *response) { m.RequestsPerPoint = nan }),
		answering("score-opinion", "none at all", func(m *response) {
			*m = response{AbstainedOnAll: true, AbstainReason: scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE}
		}),
		answering("score-order", "first come, first served", func(m *response) {
			for i := range m.Scores {
				m.Scores[i] = 1 / float32(i+1)
			}
		}),
		{"score-repeat", "draws lots", false, func(f *faulty) {
			f.score = func(nth int64, _ *request, m *response, err error) (*response, error) {
				for i := range m.GetScores() {
					m.Scores[i] = float32(nth%100) / 100
				}
				return m, err
			}
		}},
		{"score-concurrent", "mixes calls up", false, func(f *faulty) {
			var running atomic.Int64
			f.before = func(context.Context, int64, *request) error {
				running.Add(1)
				time.Sleep(5 * time.Millisecond)
				return nil
			}
			f.score = func(_ int64, _ *request, m *response, err error) (*response, error) {
				if running.Add(-1) > 0 && err == nil {
					clear(m.Scores)
				}
				return m, err
			}
		}},
		{"score-bare", "loads are demanded", false, func(f *faulty) {
			refusing(f, codes.InvalidArgument, func(req *request) bool { return n(req) > 0 && req.GetListed().GetCandidates()[0].GetLoad() == nil })
		}},
		{"score-alias", "does not know its alias", false, func(f *faulty) {
			refusing(f, codes.InvalidArgument, func(req *request) bool { return req.GetScorerType() == "ref" })
		}},
		{"score-cancel", "a lock that a cancelled call keeps", false, func(f *faulty) {
			lock := make(chan struct{}, 1)
			f.before = func(ctx context.Context, _ int64, _ *request) error {
				select {
				case lock <- struct{}{}:
				case <-time.After(300 * time.Millisecond):
					return status.Error(codes.Internal, "stuck")
				}
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(8 * time.Millisecond):
					<-lock
					return nil
				}
			}
		}},
		{"score-deadline", "half an answer", false, func(f *faulty) {
			var short sync.Map
			f.before = func(ctx context.Context, nth int64, _ *request) error {
				if end, ok := ctx.Deadline(); ok && time.Until(end) < 2*patience/3 { // all of the check's calls, even after a wait
					short.Store(nth, true)
				}
				return nil
			}
			f.score = func(nth int64, _ *request, m *response, err error) (*response, error) {
				if _, hurried := short.Load(nth); hurried && err == nil {
					m.Scores = m.Scores[:len(m.Scores)/2]
				}
				return m, err
			}
		}},
		{"score-time", "a nap", false, func(f *faulty) {
			f.before = func(context.Context, int64, *request) error {
				time.Sleep(25 * time.Millisecond)
				return nil
			}
		}},
		answering("explain-texts", "about nobody", func(m *response) {
			for _, e := range m.GetExplanations() {
				e.CandidateIndex = 99
			}
		}),
		answering("explain-texts", "two lines", func(m *response) {
			for _, e := range m.GetExplanations() {
				e.Text = "one\ntwo"
			}
		}),
		answering("explain-same", "is nicer when watched", func(m *response) {
			if len(m.GetExplanations()) > 0 {
				for i := range m.Scores {
					m.Scores[i] = 1
				}
			}
		}),
		answering("explain-unasked", "always explains", func(m *response) { m.Explanations = []*scorerv1.Explanation{{Text: "so there"}} }),
		{"explain-unasked", "explains without having said so", true, func(f *faulty) {
			f.score = func(_ int64, req *request, m *response, err error) (*response, error) {
				if err == nil && req.GetExplain() {
					m.Explanations = []*scorerv1.Explanation{{Text: "so there"}}
				}
				return m, err
			}
		}},
		{"request-largest", "1000 are enough", false, func(f *faulty) {
			refusing(f, codes.ResourceExhausted, func(req *request) bool { return n(req) > 1000 })
		}},
		{"request-unknown-fields", "fields must be known", false, func(f *faulty) {
			refusing(f, codes.InvalidArgument, func(req *request) bool { return unknownFields(req) })
		}},
		{"request-unknown-type", "one type for all", false, func(f *faulty) {
			f.before = func(_ context.Context, _ int64, req *request) error {
				req.ScorerType = "reference"
				return nil
			}
		}},
		{"request-invalid", "answers about nobody", false, func(f *faulty) {
			f.score = func(_ int64, req *request, m *response, err error) (*response, error) {
				if err != nil && req.GetScorerType() == "reference" && n(req) == 0 {
					return &response{AbstainedOnAll: true, AbstainReason: scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE}, nil
				}
				return m, err
			}
		}},
		{"request-error-info", "codes without reasons", false, func(f *faulty) {
			f.score = func(_ int64, _ *request, m *response, err error) (*response, error) {
				if err != nil {
					return nil, status.Error(status.Code(err), "no")
				}
				return m, nil
			}
		}},
		{"table-not-held", "no reason", false, func(f *faulty) {
			refusing(f, codes.FailedPrecondition, func(req *request) bool { return req.GetTable() != nil })
		}},
		{"table-not-held", "another code", false, func(f *faulty) {
			refusing(f, codes.NotFound, func(req *request) bool { return req.GetTable() != nil })
		}},
		{"table-unlisted", "scores for nobody", true, func(f *faulty) {
			f.score = func(_ int64, req *request, m *response, err error) (*response, error) {
				if req.GetTable() != nil {
					return &response{}, nil
				}
				return m, err
			}
		}},
	}
}

func streamDefects() []defect {
	type request = scorerv1.ScoreStreamRequest
	type response = scorerv1.ScoreStreamResponse
	each := func(m *response, f func(*scorerv1.StreamAnswer)) *response {
		for _, a := range m.GetAnswers() {
			f(a)
		}
		return m
	}
	errStream := errors.New("the stream ends for one bad call")
	return []defect{
		saying("stream-equal", "other scores", func(m *response) *response {
			return each(m, func(a *scorerv1.StreamAnswer) {
				for i := range a.GetResponse().GetScores() {
					a.GetResponse().Scores[i] = 1 - a.GetResponse().GetScores()[i]
				}
			})
		}),
		hearing("stream-table", "the whole table only", func(m *request) {
			for _, c := range m.GetCalls() {
				if t := c.GetRequest().GetTable(); t != nil {
					t.Positions = nil
				}
			}
		}),
		hearing("stream-table", "no labels", func(m *request) {
			for _, t := range m.GetTables() {
				for _, e := range t.GetEndpoints() {
					e.Labels = nil
				}
			}
		}),
		hearing("stream-loads", "no loads", func(m *request) { m.Loads = nil }),
		hearing("stream-tables-kept", "one table at a time", func(m *request) {
			if len(m.GetTables()) > 1 {
				m.Tables = m.Tables[len(m.Tables)-1:]
			}
		}),
		saying("stream-unknown-table", "no reason", func(m *response) *response {
			return each(m, func(a *scorerv1.StreamAnswer) {
				if a.GetError() != nil {
					a.GetError().Reason = ""
				}
			})
		}),
		saying("stream-unknown-table", "scores", func(m *response) *response {
			return each(m, func(a *scorerv1.StreamAnswer) {
				if codes.Code(a.GetError().GetCode()) == codes.FailedPrecondition {
					a.Result = &scorerv1.StreamAnswer_Response{Response: &scorerv1.ScoreResponse{}}
				}
			})
		}),
		saying("stream-ids", "an answer twice", func(m *response) *response {
			if len(m.GetAnswers()) > 3 {
				m.Answers[1].CallId = m.Answers[0].GetCallId()
			}
			return m
		}),
		saying("stream-ids", "ids of its own", func(m *response) *response {
			return each(m, func(a *scorerv1.StreamAnswer) { a.CallId += 5000 })
		}),
		saying("stream-ids", "no result", func(m *response) *response {
			return each(m, func(a *scorerv1.StreamAnswer) { a.Result = nil })
		}),
		{"stream-errors", "one bad call ends all", false, func(f *faulty) {
			f.stream = func(s grpc.BidiStreamingServer[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse]) error {
				return f.good.ScoreStream(breaking{tapped{s, f}, errStream})
			}
		}},
		saying("stream-timeouts", "a vector cut short", func(m *response) *response {
			return each(m, func(a *scorerv1.StreamAnswer) {
				if codes.Code(a.GetError().GetCode()) == codes.DeadlineExceeded {
					a.Result = &scorerv1.StreamAnswer_Response{Response: &scorerv1.ScoreResponse{Scores: []float32{1}}}
				}
			})
		}),
		saying("stream-timeouts", "a wrong error", func(m *response) *response {
			return each(m, func(a *scorerv1.StreamAnswer) {
				if codes.Code(a.GetError().GetCode()) == codes.DeadlineExceeded {
					a.GetError().Code = int32(codes.Internal)
				}
			})
		}),
		{"stream-cancelled", "cancellations end it", false, func(f *faulty) {
			f.stream = func(s grpc.BidiStreamingServer[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse]) error {
				return f.good.ScoreStream(offended{tapped{s, f}})
			}
		}},
		{"stream-end", "an error at the end", false, func(f *faulty) {
			f.stream = func(s grpc.BidiStreamingServer[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse]) error {
				if err := f.good.ScoreStream(tapped{s, f}); err != nil {
					return err
				}
				return status.Error(codes.Aborted, "so you leave me")
			}
		}},
	}
}

// breaking is a stream that fails for one failed call.
type breaking struct {
	tapped
	err error
}

func (b breaking) Send(m *scorerv1.ScoreStreamResponse) error {
	for _, a := range m.GetAnswers() {
		if a.GetError() != nil {
			return b.err
		}
	}
	return b.tapped.Send(m)
}

// chatty is a stream with an empty message after everything that is heard.
type chatty struct{ tapped }

func (c chatty) RecvMsg(m any) error {
	if err := c.tapped.RecvMsg(m); err != nil {
		return err
	}
	return c.BidiStreamingServer.Send(&scorerv1.ScoreStreamResponse{})
}

func (c chatty) Recv() (*scorerv1.ScoreStreamRequest, error) {
	m := &scorerv1.ScoreStreamRequest{}
	return m, c.RecvMsg(m)
}

// offended is a stream that does not bear cancellations.
type offended struct{ tapped }

func (o offended) RecvMsg(m any) error {
	err := o.tapped.RecvMsg(m)
	if req, ok := m.(*scorerv1.ScoreStreamRequest); ok && len(req.GetCancelledCallIds()) > 0 {
		return errors.New("cancelled?")
	}
	return err
}

func (o offended) Recv() (*scorerv1.ScoreStreamRequest, error) {
	m := &scorerv1.ScoreStreamRequest{}
	return m, o.RecvMsg(m)
}
