package scorer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// Server serves the types of one scorer. It implements
// scorerv1.ScorerServiceServer, whose methods may also be called directly, in
// process.
type Server struct {
	scorerv1.UnimplementedScorerServiceServer

	cfg          Config
	log          *slog.Logger
	info         *scorerv1.GetScorerInfoResponse
	byName       map[string]*served // names and aliases
	names        string             // for people
	capabilities map[scorerv1.Capability]bool

	drain     chan struct{}
	drainOnce sync.Once
}

// served is a Type in service.
type served struct {
	typ        Type
	name       string
	follows    bool
	ignores    bool // the request that is to be routed
	parameters parameters
}

// NewServer returns a server of the types. All faults are reported at once: names
// that are not of the contract's form or are used twice, capabilities that do
// not fit cfg.
func NewServer(name, version string, capabilities []scorerv1.Capability, types []Type, cfg Config) (*Server, error) {
	s := &Server{
		cfg:          cfg,
		log:          cfg.Log,
		info:         &scorerv1.GetScorerInfoResponse{Name: name, Version: version, Capabilities: slices.Clone(capabilities)},
		byName:       make(map[string]*served),
		capabilities: make(map[scorerv1.Capability]bool),
		drain:        make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	faults := []error{cfg.Validate(), checkName("name of the scorer", name)}
	if version == "" {
		faults = append(faults, errors.New("version: missing"))
	}
	if len(types) == 0 {
		faults = append(faults, errors.New("types: at least one must be served"))
	}
	for _, c := range capabilities {
		if c == scorerv1.Capability_CAPABILITY_UNSPECIFIED || s.capabilities[c] {
			faults = append(faults, fmt.Errorf("capabilities: %v is unspecified or named twice", c))
		}
		s.capabilities[c] = true
	}
	if s.capabilities[scorerv1.Capability_CAPABILITY_OUTCOMES] != (cfg.ReportOutcomes != nil) {
		faults = append(faults, errors.New("capabilities: CAPABILITY_OUTCOMES must be listed exactly if Config.ReportOutcomes is set"))
	}
	var names []string
	for _, t := range types {
		info := t.Info()
		names = append(names, info.GetName())
		faults = append(faults, s.add(t, info))
	}
	s.names = strings.Join(names, ", ")
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("scorer %q: %w", name, err)
	}
	return s, nil
}

func (s *Server) add(t Type, info *scorerv1.ScorerType) error {
	follower, ok := t.(TableFollower)
	sv := &served{typ: t, name: info.GetName(), follows: ok && follower.FollowsTables()}
	ignorer, ok := t.(RequestIgnorer)
	sv.ignores = ok && ignorer.IgnoresRequest()
	sv.parameters = parameters{typ: t, name: sv.name, needs: info.GetDefaultNeeds(), limit: s.cfg.ParameterCacheSize}
	s.info.Types = append(s.info.Types, info)
	var faults []error
	for _, name := range append([]string{sv.name}, info.GetAliases()...) {
		if s.byName[name] != nil {
			faults = append(faults, fmt.Errorf("types: the name %q is used twice", name))
		}
		faults = append(faults, checkName("name of a type", name))
		s.byName[name] = sv
	}
	return errors.Join(faults...)
}

// checkName enforces the form of GetScorerInfoResponse.name.
func checkName(what, name string) error {
	good := name != "" && len(name) <= 63 && name[0] != '-' && name[len(name)-1] != '-'
	for i := range len(name) {
		c := name[i]
		good = good && (c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z')
	}
	if !good {
		return fmt.Errorf("%s: %q is not 1 to 63 of [a-z0-9-], starting and ending with a letter or digit", what, name)
	}
	return nil
}

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	scorerv1.RegisterScorerServiceServer(r, s)
}

// Drain makes every stream end with UNAVAILABLE after the batch it is at, and
// refuses new ones, so that routers go to another replica before this one stops.
// Other calls are still answered. It returns at once and may be called again.
func (s *Server) Drain() {
	s.drainOnce.Do(func() { close(s.drain) })
}

// DrainAtEnd is the body of a part that is ready at once and calls [Server.Drain]
// when ctx ends. It is to be stopped before the gRPC server.
func (s *Server) DrainAtEnd(ctx context.Context, ready func()) error {
	ready()
	<-ctx.Done()
	s.Drain()
	return nil
}

// lookup finds a type by name or alias.
func (s *Server) lookup(scorerType string) (*served, error) {
	if sv := s.byName[scorerType]; sv != nil {
		return sv, nil
	}
	if scorerType == "" {
		return nil, InvalidRequest("scorer_type: missing; served here: %s", s.names)
	}
	return nil, InvalidRequest("scorer_type: %.80q is not served here; served here: %s", scorerType, s.names)
}

// GetScorerInfo implements the contract.
func (s *Server) GetScorerInfo(context.Context, *scorerv1.GetScorerInfoRequest) (*scorerv1.GetScorerInfoResponse, error) {
	return s.info, nil
}

// ValidateParameters implements the contract.
func (s *Server) ValidateParameters(_ context.Context, req *scorerv1.ValidateParametersRequest) (*scorerv1.ValidateParametersResponse, error) {
	sv, err := s.lookup(req.GetScorerType())
	if err != nil {
		return nil, err
	}
	p, err := s.parse(sv, req.GetParametersJson())
	if err != nil {
		return nil, err
	}
	if len(p.faults) > 0 {
		return &scorerv1.ValidateParametersResponse{Faults: p.faults}, nil
	}
	effective, err := s.effective(sv, req.GetParametersJson())
	if err != nil {
		return nil, err
	}
	return &scorerv1.ValidateParametersResponse{Needs: p.needs, EffectiveParametersJson: effective}, nil
}

// Score implements the contract.
func (s *Server) Score(ctx context.Context, req *scorerv1.ScoreRequest) (*scorerv1.ScoreResponse, error) {
	out := &scorerv1.ScoreResponse{}
	if _, err := s.answer(ctx, req, out, nil); err != nil {
		return nil, err
	}
	return out, nil
}

// ReportOutcomes implements the contract.
func (s *Server) ReportOutcomes(ctx context.Context, req *scorerv1.ReportOutcomesRequest) (*scorerv1.ReportOutcomesResponse, error) {
	if s.cfg.ReportOutcomes == nil {
		return nil, missing("CAPABILITY_OUTCOMES")
	}
	if err := checkOutcomes(req); err != nil {
		return nil, err
	}
	if err := s.cfg.ReportOutcomes(ctx, req); err != nil {
		return nil, contract(err)
	}
	return &scorerv1.ReportOutcomesResponse{}, nil
}
