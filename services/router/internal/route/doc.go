// Package route is the router's domain: what a request, a profile, a decision are,
// and how filters, scorers and a picker make a decision.
//
// It promises that a decision is made from one immutable snapshot of the roster,
// that a scorer can only add points and never remove a candidate, that an
// abstaining or failing scorer changes nobody's order, and that the pick is
// reserved under the same lock under which ties were broken, so that concurrent
// requests cannot all fall on the same idle endpoint.
//
// It does no I/O. Scoring services, the ledger of reservations and the fronts are
// reached through the small interfaces below. It imports the standard library and
// kit/roster, which is plain data itself.
package route
