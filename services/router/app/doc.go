// Package app puts the router together: its settings, its flags, and the order in
// which its parts start and stop. It is the only place that knows all of them.
//
// Nothing listens for traffic before an endpoint table is known, so that a router
// that has just started refuses connections rather than requests. Stopping goes the
// other way round: not ready, then no new connections, then the open requests end,
// then the ledger says that this router leaves.
package app
