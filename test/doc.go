// Package test holds the whole-system tests: the real binaries as processes of
// their own on loopback, a real NATS server, simulated model servers.
package test
