package simple

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
	"github.com/pointsman/pointsman/sdk/scorer/wire"
)

// Config is a scorer service.
type Config struct {
	// Name names the service, in the form of Type.Name. It shows in metrics. REQUIRED.
	Name string
	// Version is that of the software. REQUIRED.
	Version string
	// Address is "HOST:PORT", or "unix:///PATH" of a socket. Default 127.0.0.1:9100:
	// say which other addresses routers shall reach it at.
	Address string
	// TLS secures connections. Nil: plain text.
	TLS *tls.Config
	// StopTimeout is what calls and streams have to end in. Default 10 s.
	StopTimeout time.Duration
	// Outcomes, if set, hears what became of requests; see ReportOutcomes of the
	// contract.
	Outcomes func(context.Context, *scorerv1.ReportOutcomesRequest) error
	// Log receives what only the operator can mend. Nil: nowhere.
	Log *slog.Logger
}

// DefaultConfig returns the defaults.
func DefaultConfig(name, version string) Config {
	return Config{Name: name, Version: version, Address: "127.0.0.1:9100", StopTimeout: 10 * time.Second}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var errs []error
	if c.Address == "" {
		errs = append(errs, errors.New("the address is missing"))
	}
	if c.StopTimeout <= 0 {
		errs = append(errs, fmt.Errorf("the stop timeout must be above 0, not %v", c.StopTimeout))
	}
	return errors.Join(errs...)
}

// Server serves types. [Serve] is enough for most.
type Server struct {
	cfg      Config
	contract *scorer.Server
	grpc     *grpc.Server
	health   *healthService

	listening chan struct{}
	addr      string
	once      sync.Once
}

// New returns a server, which is healthy unless told otherwise. All faults are reported
// at once.
func New(cfg Config, types ...Type) (*Server, error) {
	low := make([]scorer.Type, len(types))
	errs := []error{cfg.Validate()}
	for i, t := range types {
		if t.New == nil && t.Scorer == nil {
			errs = append(errs, fmt.Errorf("type %q has neither New nor Scorer", t.Name))
		}
		low[i] = t.Build()
	}
	server := scorer.DefaultConfig()
	server.Log, server.ReportOutcomes = cfg.Log, cfg.Outcomes
	capabilities := []scorerv1.Capability{scorerv1.Capability_CAPABILITY_STREAM, scorerv1.Capability_CAPABILITY_EXPLAIN}
	if cfg.Outcomes != nil {
		capabilities = append(capabilities, scorerv1.Capability_CAPABILITY_OUTCOMES)
	}
	contract, err := scorer.NewServer(cfg.Name, cfg.Version, capabilities, low, server)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(wire.Codec()),
		// Routers keep idle connections alive; a stock server would hang up on them.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}
	if cfg.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(cfg.TLS)))
	}
	s := &Server{cfg: cfg, contract: contract, grpc: grpc.NewServer(options...), health: newHealth(), listening: make(chan struct{})}
	contract.Register(s.grpc)
	healthv1.RegisterHealthServer(s.grpc, s.health)
	s.SetReady(true)
	return s, nil
}

// SetReady says whether calls shall come. A scorer that warms up says false first.
func (s *Server) SetReady(ready bool) {
	status := healthv1.HealthCheckResponse_NOT_SERVING
	if ready {
		status = healthv1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", status)
	s.health.SetServingStatus(scorerv1.ScorerService_ServiceDesc.ServiceName, status)
}

// Addr waits until the server listens and returns where, in the form of
// Config.Address; empty if ctx ends first.
func (s *Server) Addr(ctx context.Context) string {
	select {
	case <-s.listening:
		return s.addr
	case <-ctx.Done():
		return ""
	}
}

// Run listens and serves until ctx ends, then sends routers elsewhere, answers what is
// open and returns nil. It can be called once.
func (s *Server) Run(ctx context.Context) error {
	network, address := "tcp", s.cfg.Address
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		network, address = "unix", path
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.cfg.Address, err)
	}
	s.once.Do(func() {
		s.addr = l.Addr().String()
		if network == "unix" {
			s.addr = "unix://" + address
		}
		close(s.listening)
	})
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", s.cfg.Address, err)
	case <-ctx.Done():
	}
	s.stop()
	<-served //nolint:errcheck // it says that it was stopped
	return nil
}

// stop ends in peace, or after the time for that.
func (s *Server) stop() {
	s.health.stop()
	s.contract.Drain()
	hard := time.AfterFunc(s.cfg.StopTimeout, s.grpc.Stop)
	defer hard.Stop()
	s.grpc.GracefulStop()
}

// Serve serves types until ctx ends. All faults of the configuration and the types are
// reported at once.
func Serve(ctx context.Context, cfg Config, types ...Type) error {
	s, err := New(cfg, types...)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
