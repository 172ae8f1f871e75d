package remote

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

const (
	healthPause = time.Second // before watching again
	healthBurst = 10          // changes that are followed at once; beyond them, one for each pause
)

// pace bounds how fast changes of health are followed: each is logged.
type pace struct {
	allowed float64
	last    time.Time
}

// take says whether one more may be followed now.
func (p *pace) take(now time.Time) bool {
	p.allowed = min(healthBurst, p.allowed+now.Sub(p.last).Seconds()/healthPause.Seconds())
	p.last = now
	if p.allowed < 1 {
		return false
	}
	p.allowed--
	return true
}

// errRestless ends a watch that tells of changes without end.
var errRestless = errors.New("its health changes too often to be followed")

// watchHealth lets calls through while the replica says that it serves, until ctx
// ends. A replica without a health service, or whose health service does not know
// the contract's name, is taken at its connection.
func (s *session) watchHealth(ctx context.Context, conn *grpc.ClientConn) {
	client := grpc_health_v1.NewHealthClient(conn)
	p := &pace{healthBurst, time.Now()}
	for ctx.Err() == nil {
		err := s.followHealth(ctx, client, p)
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

// followHealth follows one watch. One that tells more than can be followed is ended: the next
// one begins with what holds then.
func (s *session) followHealth(ctx context.Context, client grpc_health_v1.HealthClient, p *pace) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	watch, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: scorerv1.ScorerService_ServiceDesc.ServiceName})
	if err != nil {
		return err
	}
	for {
		m, err := watch.Recv()
		if err != nil {
			return err
		}
		if !p.take(time.Now()) {
			return errRestless
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
