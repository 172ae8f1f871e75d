// Package filter holds the filters that run in the router: they drop candidates of a
// profile before it is scored, from the roster alone.
//
// The formulas are those of the Inference Gateway's first text configuration, which
// users' configurations were tuned for. Three things are otherwise, on purpose:
//
//   - A figure that was never read, or is past the staleness limit, is unknown: such
//     a candidate is kept by the filters that go by load, and takes no part in their
//     minimum and maximum. It is neither idle nor full. (The original took it for idle.)
//   - Figures are what the endpoint is expected to have: what it last said, plus the
//     picks that it cannot have counted yet. Otherwise all requests between two
//     scrapes would see the same endpoint as the least loaded.
//   - The affinity filter keeps candidates without any adapter figures if there is
//     nothing better, so that a pool without adapters is not filtered to nothing.
//
// Filters by label, role, header or length go by what endpoints and requests are, not by
// load: when they leave nobody, nobody is there (503), and not merely busy (429).
//
// Filters have no state and are safe for concurrent use. None reads the prompt.
package filter
