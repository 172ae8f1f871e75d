// Package quarantine keeps endpoints that failed out of the pick for a short while.
//
// An endpoint that refuses connections or answers 5xx fails fast, so it looks idle
// and would attract everything that goes by load, local or shared. After a failure it is
// out for 1 s, and for twice as long after each further failure, up to 30 s. When it is
// back it may have one request at a time, and two more for each that went well, until the
// moving average of its failures (EWMA, 0.2 per request) is below 5 %; then all is
// forgiven. So one that fails every third request stays out longer and longer, although
// it succeeds in between.
//
// Who is out is out before anybody scores or counts, so this holds for every load signal.
//
// It is this router's own experience and not shared: another router may still reach
// an endpoint that this one cannot. It says who is out; whether that is heeded where
// everybody is out is the scheduler's business (it is not). It has no goroutine and
// costs an atomic load while nobody is out.
package quarantine
