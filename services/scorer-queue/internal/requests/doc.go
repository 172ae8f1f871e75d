// Package requests serves the scorer types that rate endpoints by counts of requests:
// queue-scorer by those that wait, running-requests-size-scorer by those that run, both
// in comparison with the other candidates, and load-aware-scorer by those that wait, on
// a scale of its own.
//
// A count is what is to be expected, not what was last read: the scraped figure, plus
// the picks of all routers that the scrape cannot have seen (the roster's credit),
// plus the asking router's newest picks that have not arrived here yet (the request's
// pending picks). So a burst spreads although all of it is scored before the next
// scrape.
//
// An endpoint whose figure was never read, is missing or is older than the roster's
// staleness limit is abstained on, whatever was picked for it: its neighbours are
// compared without it.
package requests
