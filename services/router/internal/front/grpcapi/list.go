package grpcapi

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

// ListEndpoints shows the roster.
func (s *Server) ListEndpoints(context.Context, *routerv1.ListEndpointsRequest) (*routerv1.ListEndpointsResponse, error) {
	snap, now := s.deps.Roster.Snapshot(), s.deps.Roster.Now()
	out := &routerv1.ListEndpointsResponse{Endpoints: make([]*routerv1.EndpointStatus, snap.Len())}
	if snap.Len() > 0 {
		out.TableDigest = fmt.Sprintf("%016x", snap.Table.Digest)
	}
	if a, heard := s.deps.StateAge(); heard {
		out.StateAge = durationpb.New(a)
	}
	for i := range out.Endpoints {
		e := &snap.Table.Endpoints[i]
		credit, _ := snap.Credit(i)
		st := &routerv1.EndpointStatus{
			Endpoint: endpoint(e), Models: e.Models, Engine: e.Engine, LoadAge: age(snap.Age(i, now)), Stale: !snap.Fresh(i, now),
			WaitingRequestCount: known(snap.Waiting[i]), RunningRequestCount: known(snap.Running[i]), KvCacheUsageRatio: ratio(snap.KV[i]),
			InFlightRequestCount: count(snap.InFlight(i)), CreditedRequestCount: count(credit), QuarantineReason: s.deps.Quarantine.Reason(e.ID, now),
		}
		for _, l := range e.Labels {
			st.Labels = append(st.Labels, &routerv1.Header{Name: l.Name, Value: l.Value})
		}
		out.Endpoints[i] = st
	}
	return out, nil
}

// ListScorers shows the scorer services.
func (s *Server) ListScorers(context.Context, *routerv1.ListScorersRequest) (*routerv1.ListScorersResponse, error) {
	return &routerv1.ListScorersResponse{Scorers: s.deps.Scorers()}, nil
}

// WatchDecisions streams decisions until the caller leaves.
func (s *Server) WatchDecisions(in *routerv1.WatchDecisionsRequest, out grpc.ServerStreamingServer[routerv1.WatchDecisionsResponse]) error {
	entries, stop := s.deps.Decisions.Watch(int(in.GetPastCount()), in.GetIncludeCandidates())
	defer stop()
	past := min(len(entries), int(in.GetPastCount()))
	// The caller may wait for the headers: nothing that is decided after them is missed.
	if err := out.SendHeader(nil); err != nil {
		return err
	}
	for n := 0; !in.GetPastOnly() || n < past; n++ {
		select {
		case <-out.Context().Done():
			return nil
		case <-s.stopping:
			return fail(codes.Unavailable, "STOPPING", "the router is stopping")
		case e := <-entries:
			d := decision(e.Summary, e.Full, s.deps.RouterID, s.deps.Roster.Now())
			if err := out.Send(&routerv1.WatchDecisionsResponse{Decision: d, DroppedCount: e.Dropped}); err != nil {
				return err
			}
		}
	}
	return nil
}
