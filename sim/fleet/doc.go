// Package fleet drives many simulated engines in virtual time under a routing policy, so that policies can be compared
// in seconds where a real fleet would take hours.
//
// A [Fleet] puts a workload's sessions, as package workload makes them, to engines of package engine. A [Policy] picks the engine of each
// request; it sees figures that are as old as a scrape makes them. Sessions are closed loops: a turn is sent when the one
// before was answered and its think time has passed. The same configuration, workload and policy give the same result.
//
// A policy that is a [Splitter] has prompts computed by other engines than those which answer: the first keeps what it has
// computed, the second fetches it, which takes the time that Config says, one prompt after the other from each engine.
//
// Otherwise the network and the router take no time. A policy that should be charged for its own time cannot be.
package fleet
