package rpc

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// healthService is grpc.health.v1, in step with a telemetry.Health. Unlike the library's server it ends the streams of
// watchers when the server drains, or each of them would hold up a graceful stop until its end.
type healthService struct {
	*health.Server
	drained context.Context
	drain   context.CancelFunc
}

func newHealthService() *healthService {
	h := &healthService{Server: health.NewServer()}
	h.drained, h.drain = context.WithCancel(context.Background())
	h.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING) // until follow says otherwise
	return h
}

// follow sets the status of each service, now and whenever readiness changes.
func (h *healthService) follow(health *telemetry.Health, services []string) {
	health.Subscribe(func(ready bool) {
		serving := healthv1.HealthCheckResponse_NOT_SERVING
		if ready {
			serving = healthv1.HealthCheckResponse_SERVING
		}
		for _, name := range services {
			h.SetServingStatus(name, serving)
		}
	})
}

// stop says NOT_SERVING from now on, whatever the telemetry's Health says.
func (h *healthService) stop() {
	h.Shutdown()
	h.drain()
}

// Watch streams the status of a service until the client or the server ends.
func (h *healthService) Watch(req *healthv1.HealthCheckRequest, stream healthv1.Health_WatchServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(h.drained, cancel)()
	w := &watcher{Health_WatchServer: stream, ctx: ctx}
	err := h.Server.Watch(req, w)
	if h.drained.Err() == nil || stream.Context().Err() != nil {
		return err
	}
	if w.last != healthv1.HealthCheckResponse_NOT_SERVING {
		if err := stream.Send(&healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_NOT_SERVING}); err != nil {
			return err
		}
	}
	return status.Error(codes.Unavailable, "the server is stopping")
}

// watcher is a stream that ends with ctx and knows what it has sent.
type watcher struct {
	healthv1.Health_WatchServer
	ctx  context.Context
	last healthv1.HealthCheckResponse_ServingStatus
}

func (w *watcher) Context() context.Context { return w.ctx }

func (w *watcher) Send(r *healthv1.HealthCheckResponse) error {
	w.last = r.GetStatus()
	return w.Health_WatchServer.Send(r)
}
