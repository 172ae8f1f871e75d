// Package cluster runs Pointsman as it is run in earnest: one process per service,
// talking over loopback and a real NATS server, in front of simulated model servers.
//
// Binaries are built once per test run, under the race detector if the test is. A
// process can be stopped, killed and started again under the same addresses; what
// it wrote on standard error is shown if the test fails.
package cluster
