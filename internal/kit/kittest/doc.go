// Package kittest holds what the tests of several modules need: a real NATS
// server inside the test process, redis-server processes (alone, in a cluster, or
// with sentinels), free loopback ports, and patient polling.
//
// It promises that everything it starts listens on loopback only, writes to
// temporary directories only, and is gone when the test ends. It is imported by
// tests alone; services embed nothing of it.
package kittest
