package run

import "context"

// Part is something that runs until ctx ends: a server, a connection, a loop.
//
// It calls ready once it serves; further calls do nothing. After ctx has ended it stops and returns nil or ctx's
// error; both mean a clean stop. Returning before ctx has ended is a failure, also with nil. A part that has nothing
// to do calls ready and waits for ctx ([Idle] does).
type Part func(ctx context.Context, ready func()) error

// Idle is the part that does nothing: it is ready at once and stops when told to.
func Idle(ctx context.Context, ready func()) error {
	ready()
	<-ctx.Done()
	return nil
}
