package extproc

import (
	"context"
	"io"
	"math"

	"google.golang.org/grpc"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
)

// Options returns the options of a gRPC server that the Server can be registered on:
// its codec, its limits, and its TLS. Other services may be on the same server.
func (s *Server) Options() ([]grpc.ServerOption, error) {
	creds, err := s.cfg.Credentials(func(err error) {
		s.log.Warn("new certificate files cannot be used; the old ones stay in use", "listener", "extProc", "error", err)
	})
	if err != nil {
		return nil, err
	}
	return []grpc.ServerOption{
		grpc.Creds(creds),
		grpc.ForceServerCodecV2(wire.Codec()),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.MaxRecvMsgSize(s.cfg.maxMessage()),
		grpc.MaxSendMsgSize(math.MaxInt32),
	}, nil
}

// maxMessage is the size of the largest message that is received, in bytes. A proxy that
// buffers sends a body in one message, and only one that was received can be refused
// properly: above this size the stream fails.
func (c Config) maxMessage() int { return int(max(4*c.MaxRequestBytes, 16<<20)) + 1<<20 }

// streamWorkers is how many goroutines are kept for streams, one for each at a time: their
// stacks have grown to what a request takes, which is some 16 KiB. A stream that finds
// none free has one of its own.
const streamWorkers = 128

// Part returns the part that listens on Config.Address and serves until its context
// ends. With an empty address it does nothing.
func (s *Server) Part(stdout io.Writer) (run.Part, error) {
	if s.cfg.Address == "" {
		return run.Idle, nil
	}
	opts, err := s.Options()
	if err != nil {
		return nil, conf.Prefix("listen.extProc", err)
	}
	listener := rpc.DefaultServerConfig(s.cfg.Address)
	listener.DrainTimeout = s.cfg.DrainTimeout
	return func(ctx context.Context, ready func()) error {
		// Made only now: the goroutines for streams run from then on, until the part ends.
		g, err := rpc.NewServer("extProc", listener, s.deps.Telemetry, opts...)
		if err != nil {
			return err
		}
		s.Register(g)
		g.OnDrain(s.Drain)
		return g.Part(stdout)(ctx, ready)
	}, nil
}

// HealthPart returns the part that serves grpc.health.v1 on Config.HealthAddress.
func (s *Server) HealthPart(stdout io.Writer) run.Part {
	if s.cfg.HealthAddress == "" {
		return run.Idle
	}
	tel := s.deps.Telemetry
	return func(ctx context.Context, ready func()) error {
		l, err := run.Listen(ctx, "listen.extProc.healthAddress", s.cfg.HealthAddress)
		if err != nil {
			return err
		}
		run.Announce(ctx, stdout, tel.Service(), "extProcHealth", run.Address(l))
		return serveHealth(ctx, l, tel.Health, ready)
	}
}
