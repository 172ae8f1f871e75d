// Package scale measures what more routers, scorers, endpoints and larger requests cost
// each process, and what passes through NATS; fits formulas to it; and says by these what
// a pool would take that no single machine can measure.
package scale
