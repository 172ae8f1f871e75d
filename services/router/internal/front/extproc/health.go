package extproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// liveness is the name under which health is served that says no more than that the
// process runs.
const liveness = "liveness"

// asReady says whether a service is as ready as the router: those that gateways and the
// probes of endpoint pickers ask for, whatever else is set. Any other is a mistake in a
// probe, which is told rather than answered.
func asReady(service string) bool {
	switch service {
	case "", ServiceName, "readiness", "inference-extension":
		return true
	}
	return false
}

// health is grpc.health.v1 as endpoint pickers serve it, the same in every replica: no
// leader has to be. "liveness" is always served.
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
	switch {
	case service != liveness && !asReady(service):
		return healthv1.HealthCheckResponse_SERVICE_UNKNOWN, h.changed
	case h.ready || service == liveness:
		return healthv1.HealthCheckResponse_SERVING, h.changed
	}
	return healthv1.HealthCheckResponse_NOT_SERVING, h.changed
}

// Check returns the state of a service, and NOT_FOUND for one that is not known.
func (h *health) Check(_ context.Context, r *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	state, _ := h.now(r.GetService())
	if state == healthv1.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Errorf(codes.NotFound, "no service %.64q; there are liveness, readiness and %s", r.GetService(), ServiceName)
	}
	return &healthv1.HealthCheckResponse{Status: state}, nil
}

// Watch sends the state of a service, now and when it changes.
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
