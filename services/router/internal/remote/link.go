package remote

import (
	"context"

	"google.golang.org/grpc"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// link is the way to a replica: a connection, or a scorer in this process.
type link interface {
	// client makes the calls of the contract.
	client() scorerv1.ScorerServiceClient
	// open chooses the line of a session.
	open(s *session) (line, error)
	// watchHealth lets calls of the session through while the replica says that it
	// serves, until ctx ends.
	watchHealth(ctx context.Context, s *session)
	// lost waits until the link is of no use any more; false if ctx ended first.
	lost(ctx context.Context) bool
}

// connection is a link across the network.
type connection struct{ conn *grpc.ClientConn }

func (c connection) client() scorerv1.ScorerServiceClient {
	return scorerv1.NewScorerServiceClient(c.conn)
}

func (c connection) open(s *session) (line, error) { return s.openLine() }

func (c connection) watchHealth(ctx context.Context, s *session) { s.watchHealth(ctx, c.conn) }

func (c connection) lost(ctx context.Context) bool { return connectionLost(ctx, c.conn) }
