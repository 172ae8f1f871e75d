package counter

import (
	"context"
	"errors"
)

// Errors of a store and of Reserve, to be told apart with errors.Is.
var (
	// ErrFull says that every candidate has as many requests as it may have.
	ErrFull = errors.New("every endpoint is at its limit of requests")
	// ErrApart says that the store does not hold what this router holds, or nobody asked
	// it to: nothing was reserved.
	ErrApart = errors.New("the shared counts are not in step")

	// errLapsed says that the store does not know the token: nothing was done.
	errLapsed = errors.New("the store does not know this router's counts")
)

// Token is under which a router's sub-counters are known to a store.
type Token struct {
	// Epoch names one life of the store's sums.
	Epoch string
	// Generation counts how often this router has written all of its sub-counters.
	Generation uint64
}

// Delta is a change of one sub-counter.
type Delta struct {
	Endpoint string
	Change   int64
}

// Count is the requests in flight on one endpoint.
type Count struct {
	Endpoint string
	Requests int64
}

// Request is a question to Store.Pick.
type Request struct {
	// Deltas are changes to be made before choosing, as by Adjust. Reserve fills them in.
	Deltas []Delta
	// Candidates are endpoint ids, at least one, at most 4096.
	Candidates []string
	// Limit is the most requests that an endpoint may have, the new one included. 0: no
	// limit.
	Limit int64
	// Lot is a random number, by which one of several equal candidates is chosen. Reserve
	// draws it.
	Lot uint32
	// First takes the first of equal candidates in place of the lot.
	First bool
}

// Picked is an answer of Store.Pick.
type Picked struct {
	// Index is the candidate's.
	Index int
	// Requests are its requests of all routers, the new one included.
	Requests int64
	// Floored is as of Adjust. It is told with ErrFull too.
	Floored int
}

// Store is where the sub-counters of all routers of a pool meet, seen by one of them.
// Each method is atomic.
type Store interface {
	// Pick adds one to the sub-counter of the candidate with the fewest requests of all
	// routers. The error is ErrFull, errLapsed, or one of the connection.
	Pick(ctx context.Context, t Token, q Request) (Picked, error)
	// Adjust changes sub-counters, none below zero. floored is how many would have been.
	Adjust(ctx context.Context, t Token, deltas []Delta) (floored int, err error)
	// Replace makes counts all of the router's sub-counters and renews them. generation
	// must be above all before. expired are routers that have not renewed theirs.
	Replace(ctx context.Context, generation uint64, counts []Count) (t Token, expired []string, err error)
	// Renew keeps the sub-counters alive for another TTL.
	Renew(ctx context.Context, t Token) (expired []string, err error)
	// End removes the sub-counters of a router that has not renewed them, or of this
	// one; it returns how many requests they counted.
	End(ctx context.Context, router string) (requests int64, err error)
	// Counts returns the requests in flight of all routers, for people and tests.
	Counts(ctx context.Context) (map[string]int64, error)
	// Up reports whether calls can succeed now.
	Up() bool
}
