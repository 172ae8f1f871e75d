package remote

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

const healthPause = time.Second // before watching again

// watchHealth lets calls through while the replica says that it serves, until ctx
// ends. A replica without a health service, or whose health service does not know
// the contract's name, is taken at its connection.
func (s *session) watchHealth(ctx context.Context, conn *grpc.ClientConn) {
	client := grpc_health_v1.NewHealthClient(conn)
	for ctx.Err() == nil {
		err := s.followHealth(ctx, client)
		if status.Code(err) == codes.Unimplemented {
			s.admit(ctx, "")
			<-ctx.Done()
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(healthPause):
		}
	}
}

func (s *session) followHealth(ctx context.Context, client grpc_health_v1.HealthClient) error {
	watch, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: scorerv1.ScorerService_ServiceDesc.ServiceName})
	if err != nil {
		return err
	}
	for {
		m, err := watch.Recv()
		if err != nil {
			return err
		}
		switch m.GetStatus() {
		case grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN:
			s.admit(ctx, "")
		default:
			s.admit(ctx, "its health is "+m.GetStatus().String())
		}
	}
}

// admit lets calls through, or not for the reason.
func (s *session) admit(ctx context.Context, reason string) {
	was := s.ready.Load()
	s.replica.hold(reason)
	s.ready.Store(reason == "" && ctx.Err() == nil)
	if now := s.ready.Load(); now != was {
		s.replica.service.set.tel.Log.Info("scorer replica changed", "scorer", s.replica.service.cfg.Name, "replica", s.replica.address, "ready", now, "reason", reason)
		s.replica.service.set.change()
	}
}
