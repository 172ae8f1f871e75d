package grpcapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/services/router/internal/decisions"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// domain is that of the ErrorInfo details.
const domain = "router.pointsman.dev"

// Decider decides on requests.
type Decider interface {
	// Decide reserves the pick.
	Decide(ctx context.Context, req *route.Request) *route.Decision
	// Explain reserves nothing.
	Explain(ctx context.Context, req *route.Request) *route.Decision
}

// Described is a request that was read.
type Described struct {
	Request *route.Request
	// NotUnderstood says why nothing, or no prompt, was read from the body. Empty: it
	// was understood.
	NotUnderstood string
	// Done gives back what the reading borrowed; it is called when the request is not
	// looked at any more.
	Done func()
}

// Describe reads a request. An error is the client's fault.
type Describe func(id, path string, headers route.Headers, body []byte) (Described, error)

// Deps are what the front works with; all are required.
type Deps struct {
	// RouterID is the router's publisher id.
	RouterID string
	Decider  Decider
	Describe Describe
	Roster   *roster.Roster
	// StateAge is the time since a collector was heard; false if never.
	StateAge   func() (time.Duration, bool)
	Quarantine route.Quarantine
	Decisions  *decisions.Log
	// Scorers are the scorer services' states.
	Scorers func() []*routerv1.ScorerStatus
	// ConfigStatus is the routing configuration in use.
	ConfigStatus func() *routerv1.GetConfigStatusResponse
	// CheckConfig loads a text without using it.
	CheckConfig func(source string, text []byte) *routerv1.CheckConfigResponse
	Telemetry   *telemetry.Telemetry
}

// Server implements routerv1.RouterServiceServer.
type Server struct {
	routerv1.UnimplementedRouterServiceServer
	deps   Deps
	leases leases
	picks  metric.Int64Counter

	stopping chan struct{}
	stop     func()
}

// New returns a server.
func New(deps Deps) (*Server, error) {
	s := &Server{deps: deps, stopping: make(chan struct{})}
	s.stop = sync.OnceFunc(func() { close(s.stopping) })
	var errs [2]error
	var expired metric.Int64Counter
	s.picks, errs[0] = deps.Telemetry.Meter.Int64Counter("pointsman_router_grpc_picks_total", metric.WithDescription("Picks made for callers of RouterService.Pick."))
	expired, errs[1] = deps.Telemetry.Meter.Int64Counter("pointsman_router_leases_expired_total", metric.WithDescription("Picks whose caller did not release them in time."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	s.leases = leases{open: make(map[string]lease), expired: func() { expired.Add(context.Background(), 1) }}
	return s, nil
}

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { routerv1.RegisterRouterServiceServer(r, s) }

// EndWatches ends the watches, which otherwise go on for ever; their callers are told
// that the router is not available.
func (s *Server) EndWatches() { s.stop() }

// Close ends the reservations that no caller has released.
func (s *Server) Close() { s.leases.close() }

// Pick chooses an endpoint and reserves it.
func (s *Server) Pick(ctx context.Context, in *routerv1.PickRequest) (*routerv1.PickResponse, error) {
	lease := defaultLease
	if in.GetLease() != nil {
		lease = in.GetLease().AsDuration()
		if lease <= 0 || lease > maxLease {
			return nil, fail(codes.InvalidArgument, "INVALID_REQUEST", "lease: want above 0, at most 1 h")
		}
	}
	described, err := s.describe(in.GetRequest())
	if err != nil {
		return nil, err
	}
	defer described.Done()
	req := described.Request
	d := s.deps.Decider.Decide(ctx, req)
	if d.Err != nil {
		return nil, decisionError(d.Err)
	}
	if err := ctx.Err(); err != nil {
		d.Reservation.Finish(false, route.NoUsage()) // nobody is left to release it
		return nil, status.FromContextError(err).Err()
	}
	s.leases.hold(d, lease)
	s.picks.Add(ctx, 1)
	return pickResponse(d), nil
}

// Release ends a reservation.
func (s *Server) Release(_ context.Context, in *routerv1.ReleaseRequest) (*routerv1.ReleaseResponse, error) {
	r, picked, held := s.leases.take(in.GetPickId())
	if !held {
		return nil, fail(codes.NotFound, "UNKNOWN_PICK", "no open pick has this id: it was released, its lease ended, or another router made it")
	}
	if id := roster.ID(in.GetServedEndpointId()); id != "" && id != picked {
		t := s.deps.Roster.Snapshot().Table
		if pos, in := t.Position(id); in {
			r.Move(&t.Endpoints[pos])
		}
	}
	r.Finish(in.GetCompleted(), route.Usage{
		PromptTokens: tokens(in.PromptTokenCount), CachedPromptTokens: tokens(in.CachedPromptTokenCount), OutputTokens: tokens(in.OutputTokenCount),
	})
	return &routerv1.ReleaseResponse{}, nil
}

// Explain decides without reserving, and shows how.
func (s *Server) Explain(ctx context.Context, in *routerv1.ExplainRequest) (*routerv1.ExplainResponse, error) {
	described, err := s.describe(in.GetRequest())
	if err != nil {
		return nil, err
	}
	defer described.Done()
	d := s.deps.Decider.Explain(ctx, described.Request)
	return &routerv1.ExplainResponse{
		Decision: decision(decisions.Summarise(d), d, s.deps.RouterID, s.deps.Roster.Now()), BodyNotUnderstood: described.NotUnderstood,
	}, nil
}

// describe turns a description into a request.
func (s *Server) describe(in *routerv1.RequestDescription) (Described, error) {
	if in == nil {
		return Described{}, fail(codes.InvalidArgument, "INVALID_REQUEST", "request is missing")
	}
	if len(in.GetRequestId()) > 128 {
		return Described{}, fail(codes.InvalidArgument, "INVALID_REQUEST", "request_id: want at most 128 bytes")
	}
	d, err := s.deps.Describe(in.GetRequestId(), in.GetPath(), headers(in.GetHeaders()), in.GetBody())
	if err != nil {
		return Described{}, fail(codes.InvalidArgument, "INVALID_REQUEST", err.Error())
	}
	if in.GetRestrictToSubset() {
		d.Request.Subset = &route.Subset{Addresses: in.GetSubset()}
	}
	return d, nil
}

func tokens(n *uint32) int64 {
	if n == nil {
		return -1
	}
	return int64(*n)
}

// decisionError maps the reason for there being no pick to a status.
func decisionError(err error) error {
	switch {
	case errors.Is(err, route.ErrShed):
		return fail(codes.ResourceExhausted, "SHED", err.Error())
	case errors.Is(err, route.ErrScorerFailed):
		return fail(codes.Unavailable, "SCORER_FAILED", err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	default:
		return fail(codes.Unavailable, "NO_ENDPOINT", err.Error())
	}
}

func fail(c codes.Code, reason, message string) error {
	s := status.New(c, message)
	if d, err := s.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: domain}); err == nil {
		s = d
	}
	return s.Err()
}
