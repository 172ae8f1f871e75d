package scorer

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer/wire"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// stub is a Type that does what its functions say. By default it gives every
// listed candidate 0.5.
type stub struct {
	info    *scorerv1.ScorerType
	follows bool
	parse   func([]byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault)
	score   func(context.Context, any, *scorerv1.ScoreRequest, *scorerv1.ScoreResponse) error

	parses, scores atomic.Int64
}

func newStub(name string, aliases ...string) *stub {
	return &stub{info: &scorerv1.ScorerType{Name: name, Aliases: aliases, DefaultNeeds: &scorerv1.InputNeeds{MaxPrefixBlocks: 7}}}
}

func (s *stub) Info() *scorerv1.ScorerType { return s.info }
func (s *stub) FollowsTables() bool        { return s.follows }

func (s *stub) Parse(text []byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
	s.parses.Add(1)
	if s.parse == nil {
		return string(text), nil, nil
	}
	return s.parse(text)
}

func (s *stub) Score(ctx context.Context, instance any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
	s.scores.Add(1)
	if s.score != nil {
		return s.score(ctx, instance, req, out)
	}
	v := Scores(out, len(req.GetListed().GetCandidates()))
	for i := range v {
		v[i] = 0.5
	}
	return nil
}

// teller is a stub that tells what parameters come to.
type teller struct {
	*stub
	tell func([]byte) []byte
}

func (t *teller) EffectiveParameters(text []byte) []byte { return t.tell(text) }

var allCapabilities = []scorerv1.Capability{
	scorerv1.Capability_CAPABILITY_STREAM, scorerv1.Capability_CAPABILITY_TABLE_REFERENCE, scorerv1.Capability_CAPABILITY_EXPLAIN,
}

func newServer(tb testing.TB, types ...Type) *Server {
	tb.Helper()
	return newServerWith(tb, DefaultConfig(), allCapabilities, types...)
}

func newServerWith(tb testing.TB, cfg Config, capabilities []scorerv1.Capability, types ...Type) *Server {
	tb.Helper()
	s, err := NewServer("test", "1", capabilities, types, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// dial serves s over an in-memory connection.
func dial(tb testing.TB, s *Server) scorerv1.ScorerServiceClient {
	tb.Helper()
	l := bufconn.Listen(1 << 20)
	g := grpc.NewServer(grpc.ForceServerCodecV2(wire.Codec())) // messages are used again
	s.Register(g)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///scorer",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		conn.Close()
		g.Stop()
		if err := <-served; err != nil {
			tb.Errorf("serve: %v", err)
		}
	})
	return scorerv1.NewScorerServiceClient(conn)
}

// router is the other end of a stream.
type router struct {
	t      testing.TB
	stream grpc.BidiStreamingClient[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse]
	last   uint64 // call id
}

// connect opens a stream and names the router.
func connect(t testing.TB, c scorerv1.ScorerServiceClient) *router {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := c.ScoreStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r := &router{t: t, stream: stream}
	r.send(&scorerv1.ScoreStreamRequest{RouterId: "r"})
	return r
}

func (r *router) send(b *scorerv1.ScoreStreamRequest) {
	r.t.Helper()
	if err := r.stream.Send(b); err != nil {
		r.t.Fatal(err)
	}
}

// receive gathers answers until those to all ids are there, in any grouping.
func (r *router) receive(ids ...uint64) map[uint64]*scorerv1.StreamAnswer {
	r.t.Helper()
	got := make(map[uint64]*scorerv1.StreamAnswer)
	for len(got) < len(ids) {
		m, err := r.stream.Recv()
		if err != nil {
			r.t.Fatalf("receive answers to %v, have %d: %v", ids, len(got), err)
		}
		for _, a := range m.GetAnswers() {
			if got[a.GetCallId()] != nil {
				r.t.Fatalf("call %d is answered twice", a.GetCallId())
			}
			got[a.GetCallId()] = a
		}
	}
	for _, id := range ids {
		if got[id] == nil {
			r.t.Fatalf("no answer to call %d in %v", id, got)
		}
	}
	return got
}

// call makes calls in one batch and returns their answers in order.
func (r *router) call(reqs ...*scorerv1.ScoreRequest) []*scorerv1.StreamAnswer {
	r.t.Helper()
	b := &scorerv1.ScoreStreamRequest{}
	var ids []uint64
	for _, req := range reqs {
		r.last++
		ids = append(ids, r.last)
		b.Calls = append(b.Calls, streamCall(r.last, req))
	}
	r.send(b)
	got := r.receive(ids...)
	answers := make([]*scorerv1.StreamAnswer, len(ids))
	for i, id := range ids {
		answers[i] = got[id]
	}
	return answers
}

// end returns the error that the stream ends with.
func (r *router) end() error {
	for {
		if _, err := r.stream.Recv(); err != nil {
			return err
		}
	}
}

func streamCall(id uint64, req *scorerv1.ScoreRequest) *scorerv1.StreamCall {
	return &scorerv1.StreamCall{CallId: id, TimeoutUs: uint32(time.Minute.Microseconds()), Request: req}
}

// listed is a valid request for candidates by their ids.
func listed(scorerType string, ids ...string) *scorerv1.ScoreRequest {
	list := &scorerv1.CandidateList{}
	for _, id := range ids {
		list.Candidates = append(list.Candidates, &scorerv1.Candidate{EndpointId: id})
	}
	return &scorerv1.ScoreRequest{
		ScorerType: scorerType,
		Request:    &scorerv1.InferenceRequest{RequestId: "q"},
		Candidates: &scorerv1.ScoreRequest_Listed{Listed: list},
	}
}

// byTable is a valid request for candidates of a table.
func byTable(scorerType string, digest uint64, positions ...uint32) *scorerv1.ScoreRequest {
	return &scorerv1.ScoreRequest{
		ScorerType: scorerType,
		Request:    &scorerv1.InferenceRequest{RequestId: "q"},
		Candidates: &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: digest, Positions: positions}},
	}
}

func table3(digest uint64) *scorerv1.TaughtTable {
	return &scorerv1.TaughtTable{TableDigest: digest, Endpoints: []*scorerv1.TableEndpoint{
		{EndpointId: "a", Labels: []*scorerv1.Label{{Name: "zone", Value: "1"}}}, {EndpointId: "b"}, {EndpointId: "c"},
	}}
}

// fault is an error as a router sees it.
type fault struct {
	Code    codes.Code
	Reason  string
	Message string
}

func unaryFault(tb testing.TB, err error) fault {
	tb.Helper()
	s := status.Convert(err)
	f := fault{Code: s.Code(), Message: s.Message()}
	for _, d := range s.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != "scorer.pointsman.dev" {
			tb.Errorf("detail %v, want an ErrorInfo of our domain", d)
			continue
		}
		f.Reason = info.GetReason()
	}
	return f
}

func streamFault(a *scorerv1.StreamAnswer) fault {
	e := a.GetError()
	return fault{codes.Code(e.GetCode()), e.GetReason(), e.GetMessage()}
}

func (f fault) is(code codes.Code, reason, text string) bool {
	return f.Code == code && f.Reason == reason && strings.Contains(f.Message, text)
}

func clone[M proto.Message](m M) M { return proto.Clone(m).(M) }

// journal is a log that may be read while it is written.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }
