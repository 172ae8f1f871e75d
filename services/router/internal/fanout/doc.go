// Package fanout asks all scorers of a profile at once and waits for them under one
// deadline.
//
// It promises that the waiting goroutine is the only one it needs, that it returns
// at its deadline or when the request is given up, whatever the scorers do, and that
// an answer that comes too late touches nothing: a call is won once, by the answer
// or by the clock. It is also where an answer is held against the rules of
// pointsman.scorer.v1, so that no score reaches a decision unchecked.
//
// How a scorer is reached is not its business: an Instance may be a service across
// the network (package remote) or code in this process. It chooses no replica,
// keeps no breaker and counts nothing; Instance.End tells the instance what came of
// each call.
package fanout
