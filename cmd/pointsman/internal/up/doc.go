// Package up runs everything on one machine, in one process: an embedded NATS
// server, simulated model servers, the five services over loopback, and a table of
// decisions as they happen. It is what a newcomer sees first.
//
// The services are the real ones: each gets flags and talks to the others over the
// same sockets as anywhere else. Only the process is shared.
package up
