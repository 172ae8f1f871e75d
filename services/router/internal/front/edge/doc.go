// Package edge is what the fronts that face HTTP clients have in common, whether they
// carry the requests themselves (httpproxy) or a gateway does (extproc).
//
// It promises that one thing is said in one way: why an exchange has ended (Reason), the
// answers that a front makes up in the place of an endpoint (Refusal), which headers only
// routers may set (Routing), and the counts of all that (Meter).
//
// It serves nothing and decides nothing.
package edge
