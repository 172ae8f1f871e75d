// Package grpcapi is the router's gRPC front: picks for callers that send the
// request themselves, dry runs, and what the command line shows.
//
// It turns descriptions into route.Request and decisions into messages. A pick made
// here is released by its caller, or when its lease ends.
package grpcapi
