package remote

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// idle is a scorer type as strangers write them with the kit: it follows nothing and
// prefers endpoints where fewer requests wait.
type idle struct{}

func (idle) Info() *scorerv1.ScorerType { return &scorerv1.ScorerType{Name: "idle"} }
func (idle) Parse([]byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
	return nil, &scorerv1.InputNeeds{RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_LOAD}}, nil
}

func (idle) Score(_ context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
	candidates := req.GetListed().GetCandidates()
	scores := scorer.Scores(out, len(candidates))
	for i, c := range candidates {
		if c.GetLoad().GetWaitingRequestCount() == 0 && c.GetLoad() != nil {
			scores[i] = 1
		}
	}
	return nil
}

// serveKit serves a type with the kit's server.
func serveKit(t testing.TB, address string, typ scorer.Type) (*scorer.Server, string, func()) {
	t.Helper()
	s, err := scorer.NewServer("test-scorer", "1", []scorerv1.Capability{scorerv1.Capability_CAPABILITY_STREAM}, []scorer.Type{typ}, scorer.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	s.Register(g)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(l) }()
	stop := func() { g.Stop(); <-done }
	t.Cleanup(stop)
	return s, l.Addr().String(), stop
}

// A scorer that follows nothing gives the same answers by stream and one by one.
func TestKitScorer(t *testing.T) {
	for name, transport := range transports {
		t.Run(name, func(t *testing.T) {
			_, address, _ := serveKit(t, "127.0.0.1:0", idle{})
			r := newRig(t, []ScorerConfig{{Name: "idle", Target: address, Transport: transport}})
			sc := r.resolved("idle")
			err := r.roster.ApplyLoads(roster.Loads{
				TableDigest: r.roster.Snapshot().Table.Digest, AgeMS: []int32{0, 0, 0, -1}, Waiting: []int32{3, 0, 1, -1}, Running: []int32{1, 1, 1, -1},
			}, r.roster.Now())
			if err != nil {
				t.Fatal(err)
			}
			c := r.cycle()
			out := r.askAs(t.Context(), c, []int32{0, 1, 3}, sc)[0]
			r.wantVerdict(out, route.Scored)
			if diff := cmp.Diff([]float32{0, 1, 0}, out.Values); diff != "" {
				t.Error(diff)
			}
			if got := r.set.Status()[0].GetTransport(); got != string(transport) {
				t.Errorf("transport %q", got)
			}
		})
	}
}

// Replicas that are stopped in the house's way lose no call.
func TestKitDrain(t *testing.T) {
	first, firstAt, stopFirst := serveKit(t, "127.0.0.1:0", idle{})
	_, secondAt, _ := serveKit(t, "127.0.0.1:0", idle{})
	r := newRig(t, one("idle", strings.Join([]string{firstAt, secondAt}, ",")))
	sc := r.ready(r.resolve("idle"), 2)
	stop := make(chan struct{})
	var callers sync.WaitGroup
	var asked atomic.Int64
	for range 8 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r.wantVerdict(r.ask(sc)[0], route.Scored)
				asked.Add(1)
			}
		})
	}
	more := func() {
		t.Helper()
		before := asked.Load()
		kittest.Eventually(t, "more calls", func() bool { return asked.Load() > before+200 })
	}
	more()
	first.Drain()
	r.ready(sc, 1)
	more()
	stopFirst()
	more()
	serveKit(t, firstAt, idle{})
	r.ready(sc, 2)
	more()
	close(stop)
	callers.Wait()
}
