// Package quarantine keeps endpoints that failed out of the pick for a short while.
//
// An endpoint that refuses connections or answers 5xx fails fast, so it looks idle
// and would attract everything. After a failure it is out for 1 s, and for twice as
// long after each further failure in a row, up to 30 s; the first success after that
// makes all good again.
//
// It is this router's own experience and not shared: another router may still reach
// an endpoint that this one cannot. It says who is out; whether that is heeded where
// everybody is out is the scheduler's business (it is not). It has no goroutine and
// costs an atomic load while nobody is out.
package quarantine
