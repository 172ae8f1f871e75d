// Package inflight lets the router count its requests in flight together with all other
// routers of the pool, in Redis.
//
// It joins kit/counter, which keeps the counts, to the domain, which decides by them, and
// to the ledger, which knows when a request begins and ends. Redis is asked only while
// the configuration in use has a picker that goes by it; until then a router with an
// address of Redis only keeps a connection.
package inflight
