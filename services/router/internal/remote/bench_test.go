package remote

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
	"github.com/pointsman/pointsman/sdk/scorer/wire"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// flat is a scorer type that follows the tables and thinks of nothing.
type flat struct{ name string }

func (f flat) Info() *scorerv1.ScorerType { return &scorerv1.ScorerType{Name: f.name} }
func (flat) FollowsTables() bool          { return true }
func (flat) Parse([]byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
	return nil, &scorerv1.InputNeeds{}, nil
}

func (flat) Score(_ context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
	n := len(req.GetTable().GetPositions())
	if n == 0 {
		n = 128
	}
	for i, s := 0, scorer.Scores(out, n); i < len(s); i++ {
		s[i] = float32(i%8) / 8
	}
	return nil
}

// BenchmarkFan is a closed loop of callers against scorers over Unix sockets, all in
// this process.
func BenchmarkFan(b *testing.B) {
	for _, transport := range []Transport{Stream, Unary} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/scorers=3/endpoints=128/callers=%d", transport, callers), func(b *testing.B) {
				benchmarkFan(b, transport, 3, callers)
			})
		}
	}
}

func benchmarkFan(b *testing.B, transport Transport, scorers, callers int) {
	var cfg []ScorerConfig
	for i := range scorers {
		name := fmt.Sprintf("flat-%d", i)
		cfg = append(cfg, ScorerConfig{Name: name, Target: serveFlat(b, name), Transport: transport})
	}
	r := newRig(b, cfg, func(c *rigConfig) { c.size = 128 })
	var all []route.Scorer
	for _, c := range cfg {
		all = append(all, r.resolved(c.Name))
	}
	candidates := allOf(r.cycle())
	r.ask(all...) // teach
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	cpu := cpuTime(b)
	b.ResetTimer()
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			c, out := r.cycle(), make([]route.Scores, scorers)
			for left.Add(-1) >= 0 {
				r.fan.Score(context.Background(), c, all, candidates, out)
				for i := range out {
					if out[i].Verdict != route.Scored {
						b.Errorf("%v: %s", out[i].Verdict, out[i].Reason)
						return
					}
				}
			}
		})
	}
	running.Wait()
	b.StopTimer()
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(r.value("pointsman_router_scorer_batch_calls_sum")/max(1, r.value("pointsman_router_scorer_batch_calls_count")), "calls/message")
}

func serveFlat(b *testing.B, name string) string {
	b.Helper()
	s, err := scorer.NewServer(name, "1", []scorerv1.Capability{
		scorerv1.Capability_CAPABILITY_STREAM, scorerv1.Capability_CAPABILITY_TABLE_REFERENCE, scorerv1.Capability_CAPABILITY_FOLLOWS_BROADCAST,
	}, []scorer.Type{flat{name}}, scorer.DefaultConfig())
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	g := grpc.NewServer(grpc.ForceServerCodecV2(wire.Codec()))
	s.Register(g)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(l) }()
	b.Cleanup(func() { g.Stop(); <-done })
	return "unix://" + path
}

// cpuTime is what this process has used, which says more than the clock where others
// share the machine.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
