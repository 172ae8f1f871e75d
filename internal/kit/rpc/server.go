package rpc

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// Server is a gRPC server with health. Register services on it, then run its Part once.
type Server struct {
	*grpc.Server

	name    string
	address string
	tel     *telemetry.Telemetry
	health  *healthService
	onDrain once
	patient time.Duration
}

// NewServer returns a server; it listens when its Part runs. name is the listener's name: the key below "listen" in
// the service's configuration, so "grpc" stands for listen.grpc.address. An error is about cfg, the TLS files among it, and
// names the key in full. opts come after the house's own.
func NewServer(name string, cfg ServerConfig, tel *telemetry.Telemetry, opts ...grpc.ServerOption) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, conf.Prefix("listen."+name, err)
	}
	s := &Server{name: name, address: cfg.Address, tel: tel, health: newHealthService(), patient: cfg.DrainTimeout.D()}
	house, err := s.options(cfg)
	if err != nil {
		return nil, err
	}
	s.Server = grpc.NewServer(append(house, opts...)...)
	healthv1.RegisterHealthServer(s.Server, s.health)
	return s, nil
}

func (s *Server) options(cfg ServerConfig) ([]grpc.ServerOption, error) {
	panics, err := s.tel.Meter.Int64Counter("pointsman_rpc_panics_total",
		metric.WithDescription("Calls whose handler panicked, by method."))
	if err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	r := recovery{s.tel.Log, panics}
	opts := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(cfg.MaxMessageBytes),
		grpc.MaxSendMsgSize(cfg.MaxMessageBytes),
		grpc.ReadBufferSize(bufferBytes),
		grpc.WriteBufferSize(bufferBytes),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connectionWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		// A client that is gone without a word is found out in 80 s, and its streams end.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.ChainUnaryInterceptor(r.unary),
		grpc.ChainStreamInterceptor(r.stream),
	}
	if !cfg.TLS.Enabled() {
		return opts, nil
	}
	f, err := openFiles(cfg.TLS, func(err error) {
		s.tel.Log.Warn("new certificate files cannot be used; the old ones stay in use", "listener", s.name, "error", err)
	})
	if err != nil {
		return nil, conf.Prefix("listen."+s.name, err)
	}
	return append(opts, grpc.Creds(newReloading(f, cfg.TLS.serverConfig))), nil
}

// OnDrain adds a function that is called when the server begins to stop, or at once if it has. A handler of streams that
// live as long as their client makes them end soon after it, because the stop waits for them, up to
// [ServerConfig.DrainTimeout].
func (s *Server) OnDrain(f func()) { s.onDrain.add(f) }

// Part returns the part that listens, announces the address on stdout under the server's name, and serves. When its
// context ends, health says NOT_SERVING, new calls are refused, open calls may finish for
// [ServerConfig.DrainTimeout], and the rest is cut off.
func (s *Server) Part(stdout io.Writer) run.Part {
	return func(ctx context.Context, ready func()) error {
		defer s.Stop() // whatever happens, nothing of the server is left running
		l, err := run.Listen(ctx, "listen."+s.name+".address", s.address)
		if err != nil {
			return err
		}
		s.health.follow(s.tel.Health, append(slices.Collect(maps.Keys(s.GetServiceInfo())), ""))
		address := run.Address(l)
		run.Announce(ctx, stdout, s.tel.Service(), s.name, address)
		var failure error
		served := make(chan struct{})
		go func() {
			defer close(served)
			failure = s.Serve(l)
		}()
		ready()

		select {
		case <-served:
			return fmt.Errorf("listen.%s.address: serve on %s: %w", s.name, address, failure)
		case <-ctx.Done():
		}
		s.stop()
		<-served
		return nil
	}
}

// stop drains the server, and then ends what is left.
func (s *Server) stop() {
	s.health.stop()
	s.onDrain.call()
	cut := time.AfterFunc(s.patient, func() {
		s.tel.Log.Warn("calls are cut off, they have not ended in time", "listener", s.name, "waited", s.patient)
		s.Stop()
	})
	defer cut.Stop()
	s.GracefulStop()
}
