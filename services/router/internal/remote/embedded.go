package remote

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// embeddedTarget is the target of a scorer in this process.
const embeddedTarget = "embedded"

// Embedded is a scorer in this process. It goes by the router's own roster, so that the
// router's picks are known to it at once.
type Embedded struct {
	// Server answers calls, each on the goroutine of the request that asks: it must be
	// quick, since no deadline can end it. Whatever it panics with must not come out.
	Server scorerv1.ScorerServiceServer
	// Health says whether it is ready; nil: always.
	Health Health
}

// Health is readiness and why there is none. *telemetry.Health is one.
type Health interface {
	Ready() (ready bool, reasons []string)
}

// healthLook is the time between two looks at the health of an embedded scorer.
const healthLook = 100 * time.Millisecond

// inProcess is the link to an embedded scorer.
type inProcess struct{ scorer Embedded }

var _ link = inProcess{}

func (l inProcess) client() scorerv1.ScorerServiceClient { return direct{l.scorer.Server} }

func (l inProcess) open(s *session) (line, error) {
	n := &inline{session: s}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n, nil
}

func (l inProcess) watchHealth(ctx context.Context, s *session) {
	if l.scorer.Health == nil {
		s.admit(ctx, "")
		<-ctx.Done()
		return
	}
	look := time.NewTicker(healthLook)
	defer look.Stop()
	said := "not looked at yet"
	for {
		ready, reasons := l.scorer.Health.Ready()
		reason := strings.Join(reasons, "; ")
		if ready {
			reason = ""
		}
		if reason != said {
			s.admit(ctx, reason)
			said = reason
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

func (l inProcess) lost(ctx context.Context) bool {
	<-ctx.Done()
	return false
}

// inline carries calls by calling: on the goroutine of the request, at once.
type inline struct {
	session *session
	ctx     context.Context // until hangUp
	cancel  context.CancelFunc
}

func (n *inline) submit(f *flight) error {
	if n.ctx.Err() != nil {
		return errClosed
	}
	f.until = until{n.ctx, f.call.Deadline()}
	resp, err := n.session.score(&f.until, f)
	if err != nil {
		f.faulted(n.session, judgeError(err))
		return nil
	}
	f.answered(n.session, resp)
	return nil
}

func (n *inline) abandon(*flight) {} // it has landed

func (n *inline) run() error {
	<-n.ctx.Done()
	return n.ctx.Err()
}

func (n *inline) hangUp() { n.cancel() }

// until is a context with a deadline and without a timer: whoever is called directly is
// over before anybody could be told.
type until struct {
	context.Context
	deadline time.Time
}

// Deadline implements context.Context.
func (u *until) Deadline() (time.Time, bool) { return u.deadline, true }

// Err implements context.Context.
func (u *until) Err() error {
	if err := u.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(u.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// direct calls a server without anything in between.
type direct struct{ server scorerv1.ScorerServiceServer }

var _ scorerv1.ScorerServiceClient = direct{}

// GetScorerInfo implements the contract.
func (d direct) GetScorerInfo(ctx context.Context, in *scorerv1.GetScorerInfoRequest, _ ...grpc.CallOption) (*scorerv1.GetScorerInfoResponse, error) {
	return awaited(ctx, in, d.server.GetScorerInfo)
}

// ValidateParameters implements the contract.
func (d direct) ValidateParameters(ctx context.Context, in *scorerv1.ValidateParametersRequest, _ ...grpc.CallOption) (*scorerv1.ValidateParametersResponse, error) {
	return awaited(ctx, in, d.server.ValidateParameters)
}

// awaited calls a method and waits no longer than the context allows: a configuration is
// not held up by a scorer that hangs, within this process neither.
func awaited[In, Out any](ctx context.Context, in In, method func(context.Context, In) (Out, error)) (Out, error) {
	type answer struct {
		out Out
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		out, err := method(ctx, in)
		answered <- answer{out, err}
	}()
	select {
	case a := <-answered:
		return a.out, a.err
	case <-ctx.Done():
		var none Out
		return none, status.FromContextError(ctx.Err()).Err()
	}
}

// Score implements the contract.
func (d direct) Score(ctx context.Context, in *scorerv1.ScoreRequest, _ ...grpc.CallOption) (*scorerv1.ScoreResponse, error) {
	return d.server.Score(ctx, in)
}

// ScoreStream implements the contract: there is none, a call is cheaper.
func (d direct) ScoreStream(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse], error) {
	return nil, status.Error(codes.Unimplemented, "embedded scorers have no streams")
}

// ReportOutcomes implements the contract.
func (d direct) ReportOutcomes(ctx context.Context, in *scorerv1.ReportOutcomesRequest, _ ...grpc.CallOption) (*scorerv1.ReportOutcomesResponse, error) {
	return d.server.ReportOutcomes(ctx, in)
}

// validateEmbedded tells of settings that an embedded scorer has no use for.
func (s ScorerConfig) validateEmbedded() error {
	var errs []error
	if s.Target != embeddedTarget {
		if s.Settings != "" {
			errs = append(errs, errors.New("settings: is for target: embedded alone; a scorer elsewhere has its own"))
		}
		return errors.Join(errs...)
	}
	if s.TLS.Enabled() {
		errs = append(errs, errors.New("tls: is of no use with target: embedded"))
	}
	if s.Transport != "" && s.Transport != Auto {
		errs = append(errs, errors.New("transport: is of no use with target: embedded"))
	}
	return errors.Join(errs...)
}

// HasEmbedded says whether a scorer of the name is to be embedded, if the program has
// it within, and with which settings.
func (c Config) HasEmbedded(name string) (settings string, embedded bool) {
	for _, s := range c.Scorers {
		if s.Name == name && s.Target != "" {
			return s.Settings, s.Target == embeddedTarget
		}
		if s.Name == name {
			return s.Settings, true
		}
	}
	_, builtin := builtins()[name]
	return "", builtin
}

// list tells in words which scorers are within.
func list(embedded map[string]Embedded) string {
	if len(embedded) == 0 {
		return ""
	}
	return " (within are " + strings.Join(slices.Sorted(maps.Keys(embedded)), ", ") + ")"
}
