// Package disaggregation measures, in virtual time, what disaggregated prefill does to latencies, and writes
// docs/bench/disaggregation.md: simulated engines (package sim/fleet), the router's own decider. `make bench-pd` runs it.
//
// The same code gives the same page on every machine. It does not measure the router: docs/bench has that.
package disaggregation
