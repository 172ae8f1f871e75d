// Package envoy sends requests through a real Envoy: clients on one side, Envoy with
// the bootstrap files of deploy/envoy in the middle, and behind it the router, the
// scorers, the collector and simulated model servers as processes of their own.
//
// Envoy runs with one listener per way to set the ext_proc filter up. What a model
// server gets is compared byte for byte with what the client sent, and the path taken is
// asserted: what the router counted, what it decided, and that Envoy had nothing to
// complain of. Everything listens on loopback.
package envoy
