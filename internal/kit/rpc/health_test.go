package rpc_test

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

const (
	serving    = healthv1.HealthCheckResponse_SERVING
	notServing = healthv1.HealthCheckResponse_NOT_SERVING
)

func TestHealthFollowsReadiness(t *testing.T) {
	tel := telemetry.Discard()
	tel.Health.Set("roster", errors.New("no table yet"))
	r := start(t, plain(), tel, &echo{})
	client := healthv1.NewHealthClient(dial(t, r.addr, rpc.DefaultClientConfig()))

	check := func(want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, service := range []string{"", "grpc.testing.TestService", "grpc.health.v1.Health"} {
			resp, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
			if err != nil || resp.GetStatus() != want {
				t.Errorf("Check(%q) = %v, %v, want %v", service, resp.GetStatus(), err, want)
			}
		}
	}
	check(notServing)
	tel.Health.Set("roster", nil)
	check(serving)
	tel.Health.Set("bus", errors.New("away"))
	check(notServing)

	_, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "grpc.testing.Nothing"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("Check of an unknown service = %v, want NOT_FOUND", err)
	}
}

func TestHealthWatch(t *testing.T) {
	tel := telemetry.Discard()
	r := start(t, plain(), tel, &echo{})
	client := healthv1.NewHealthClient(dial(t, r.addr, rpc.DefaultClientConfig()))
	stream, err := client.Watch(t.Context(), &healthv1.HealthCheckRequest{Service: "grpc.testing.TestService"})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		resp, err := stream.Recv()
		if err != nil || resp.GetStatus() != want {
			t.Fatalf("the watcher hears %v, %v, want %v", resp.GetStatus(), err, want)
		}
	}
	next(serving)
	tel.Health.Set("bus", errors.New("away"))
	next(notServing)
	tel.Health.Set("bus", nil)
	next(serving)

	// A watcher must not hold up the stop, and hears of it.
	r.stop()
	next(notServing)
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream of the watcher ended with %v, want UNAVAILABLE", err)
	}
	tel.Health.Set("bus", errors.New("away")) // nobody is left to hear it
	tel.Health.Set("bus", nil)
}

func TestHealthWatchOfAnUnknownService(t *testing.T) {
	r := start(t, plain(), telemetry.Discard(), &echo{})
	client := healthv1.NewHealthClient(dial(t, r.addr, rpc.DefaultClientConfig()))
	stream, err := client.Watch(t.Context(), &healthv1.HealthCheckRequest{Service: "x"})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil || resp.GetStatus() != healthv1.HealthCheckResponse_SERVICE_UNKNOWN {
		t.Errorf("the watcher hears %v, %v, want SERVICE_UNKNOWN, as the protocol says", resp.GetStatus(), err)
	}
}
