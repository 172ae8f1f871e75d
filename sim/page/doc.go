// Package page writes the Prometheus metrics pages of inference engines from the figures of a simulated one.
//
// The names, labels, types, help texts and histogram bounds are the engines' own, as far as a router or a dashboard may
// read them; the values are the simulation's. A [Page] prepares every line's beginning once, so that a scrape costs
// little. [Distributions] gathers an engine's events into the histograms.
//
// Durations are the simulated engine's: with a time scale of 10, a second of latency lasts a tenth of one.
package page
