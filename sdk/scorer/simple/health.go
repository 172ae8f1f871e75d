package simple

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthService is the library's, but that its watchers end when it does: they would
// hold up a graceful stop for as long as a router stays connected.
type healthService struct {
	*health.Server
	over context.Context
	end  context.CancelFunc
}

func newHealth() *healthService {
	h := &healthService{Server: health.NewServer()}
	h.over, h.end = context.WithCancel(context.Background())
	return h
}

// stop says NOT_SERVING to everybody and ends the watchers.
func (h *healthService) stop() {
	h.Shutdown()
	h.end()
}

// Watch implements the health service.
func (h *healthService) Watch(req *healthv1.HealthCheckRequest, stream healthv1.Health_WatchServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(h.over, cancel)()
	w := &watcher{Health_WatchServer: stream, ctx: ctx}
	err := h.Server.Watch(req, w)
	if h.over.Err() == nil || stream.Context().Err() != nil {
		return err
	}
	// The library may have seen the end before the news.
	if w.last != healthv1.HealthCheckResponse_NOT_SERVING {
		if err := stream.Send(&healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_NOT_SERVING}); err != nil {
			return err
		}
	}
	return status.Error(codes.Unavailable, "the scorer is stopping")
}

// watcher is a stream that ends with ctx and knows what was sent last.
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
