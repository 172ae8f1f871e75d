package extproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// liveness is the name under which health is served that says no more than that the
// process runs.
const liveness = "liveness"

// health is grpc.health.v1 as endpoint pickers serve it: any service that is asked for
// is as ready as the router, because every gateway asks for another. Only "liveness" is
// always served.
type health struct {
	healthv1.UnimplementedHealthServer
	of *telemetry.Health

	mu      sync.Mutex
	changed chan struct{} // closed when readiness changes
	ready   bool
	stopped chan struct{}
}

func newHealth(of *telemetry.Health) *health {
	h := &health{of: of, changed: make(chan struct{}), stopped: make(chan struct{})}
	of.Subscribe(h.set)
	return h
}

func (h *health) set(ready bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ready != ready {
		h.ready = ready
		close(h.changed)
		h.changed = make(chan struct{})
	}
}

// now returns the state of a service, and what tells of the next.
func (h *health) now(service string) (healthv1.HealthCheckResponse_ServingStatus, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ready || service == liveness {
		return healthv1.HealthCheckResponse_SERVING, h.changed
	}
	return healthv1.HealthCheckResponse_NOT_SERVING, h.changed
}

// Check returns the state of any service.
func (h *health) Check(_ context.Context, r *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	state, _ := h.now(r.GetService())
	return &healthv1.HealthCheckResponse{Status: state}, nil
}

// Watch sends the state of any service, now and when it changes.
func (h *health) Watch(r *healthv1.HealthCheckRequest, stream healthv1.Health_WatchServer) error {
	last := healthv1.HealthCheckResponse_UNKNOWN
	for {
		state, changed := h.now(r.GetService())
		if state != last {
			if err := stream.Send(&healthv1.HealthCheckResponse{Status: state}); err != nil {
				return err
			}
			last = state
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		case <-h.stopped:
			return nil
		}
	}
}

// serveHealth serves until ctx ends.
func serveHealth(ctx context.Context, l net.Listener, of *telemetry.Health, ready func()) error {
	h := newHealth(of)
	g := grpc.NewServer()
	healthv1.RegisterHealthServer(g, h)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	ready()
	select {
	case err := <-served:
		return fmt.Errorf("listen.extProc.healthAddress: serve: %w", err)
	case <-ctx.Done():
	}
	close(h.stopped)
	g.Stop()
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("listen.extProc.healthAddress: serve: %w", err)
	}
	return nil
}
