package extproc

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// ServiceName is the gRPC service that proxies call, and whose health they ask for.
const ServiceName = "envoy.service.ext_proc.v3.ExternalProcessor"

// Objectives knows the InferenceObjectives.
type Objectives interface {
	// Priority returns the priority of the objective, and false if there is none of
	// that name.
	Priority(name string) (int32, bool)
}

// NoObjectives is an Objectives without any.
type NoObjectives struct{}

// Priority returns false.
func (NoObjectives) Priority(string) (int32, bool) { return 0, false }

// Deps are what the front works with.
type Deps struct {
	// Decider decides, by the deadlines of requests. REQUIRED.
	Decider edge.Decider
	// Roster is REQUIRED.
	Roster edge.Roster
	// Quarantine is REQUIRED.
	Quarantine edge.Quarantine
	// Objectives may be nil: there are none.
	Objectives Objectives
	// Rewrite returns the model that is to take the place of the request's, and false
	// for none. It is called once the request is known and before it is decided on. Nil:
	// no model is rewritten but by the header x-gateway-model-name-rewrite.
	Rewrite func(r *route.Request) (model string, ok bool)
	// Salt keeps tenants apart in prefix caches; nil: bodies keep the salts of clients.
	Salt *edge.Salter
	// Telemetry is REQUIRED.
	Telemetry *telemetry.Telemetry
}

// Server is the ext_proc front.
type Server struct {
	cfg       Config
	deps      Deps
	log       *slog.Logger
	metrics   *instruments
	parser    *prompt.Parser
	assumed   wire.Mode
	strip     []string // headers that are removed from every request
	stripAll  []string // the destination with them
	exchanges sync.Pool
	held      atomic.Int64 // bytes of bodies, of all exchanges
	draining  atomic.Bool
	warned    [warnings]atomic.Bool
}

// New returns a Server. It starts nothing: register it on a gRPC server made with
// Options, or run Part.
func New(deps Deps, cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	parser, err := prompt.NewParser(cfg.Prompt)
	if err != nil {
		return nil, err
	}
	metrics, err := newInstruments(deps.Telemetry.Meter)
	if err != nil {
		return nil, err
	}
	if deps.Objectives == nil {
		deps.Objectives = NoObjectives{}
	}
	s := &Server{cfg: cfg, deps: deps, log: deps.Telemetry.Log, metrics: metrics, parser: parser}
	s.assumed, _ = wire.ParseMode(cfg.AssumedMode)
	s.strip = strippedFromRequests(cfg.DestinationHeader)
	s.stripAll = slices.Concat(s.strip, []string{cfg.DestinationHeader})
	s.exchanges.New = func() any { return new(exchange) }
	return s, nil
}

// Register adds the service to a gRPC server, which must have been made with Options.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: ServiceName,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: "Process", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return s.process(stream) },
		}},
		Metadata: "envoy/service/ext_proc/v3/external_processor.proto",
	}, s)
}

// Drain has streams end as soon as the proxy can go on without them and nothing is
// lost by it, which is never in full duplex. What becomes of their requests is then not
// seen any more.
func (s *Server) Drain() { s.draining.Store(true) }

// process serves one stream.
func (s *Server) process(stream grpc.ServerStream) error {
	x, _ := s.exchanges.Get().(*exchange)
	x.begin(s, stream)
	defer x.end()
	err := x.run()
	x.clean = true
	return err
}

// Things that are said once.
type warning uint8

const (
	warnMode warning = iota
	warnRewrite
	warnSalt
	warnHeadersOnly
	warnHeaders
	warnings
)

// warn logs a shortcoming of the proxy's configuration, the first time only.
func (s *Server) warn(w warning, message string, args ...any) {
	if !s.warned[w].Swap(true) {
		s.log.Warn(message, args...)
	}
}
