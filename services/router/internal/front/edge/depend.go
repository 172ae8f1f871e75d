package edge

import (
	"context"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Decider picks endpoints.
type Decider interface {
	// Decide picks an endpoint and reserves it. The decision's Err says why there
	// is none.
	Decide(ctx context.Context, r *route.Request) *route.Decision
}

// Roster knows the endpoints.
type Roster interface {
	// Snapshot returns the present view.
	Snapshot() *roster.Snapshot
}

// Quarantine hears how endpoints do.
type Quarantine interface {
	// Failed says that an endpoint failed before the first byte, and why.
	Failed(id roster.ID, reason string)
	// Succeeded says that it answered.
	Succeeded(id roster.ID)
}
