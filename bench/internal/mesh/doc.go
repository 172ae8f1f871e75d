// Package mesh starts what is measured, each service as a process of its own on the
// loopback, as in production, and samples what each process uses.
//
// It takes built binaries. NATS, the fake model servers and the floor are this
// program's own commands, run as processes too, so that nothing that is measured
// shares a process with what measures it.
package mesh
