// Package kubernetes tests discovery against a real API server: the collector is a
// process with its flags, pods are objects without anything behind them unless a test
// says so, and what routers and scorers would see is followed on the bus.
package kubernetes
