// Package inflight serves the scorer types that rate endpoints by what routers have
// sent them and has not come back yet: active-request-scorer by requests,
// token-load-scorer by their prompt tokens that were not cached.
//
// It goes by no figure of the model servers, so it needs no scrape and is never stale:
// what is in flight is what all routers have told, plus the asking router's newest
// picks that have not arrived here yet. An endpoint that nothing was picked for has
// nothing in flight. Only a listed candidate that is not in the pool as known here is
// abstained on.
package inflight
