package disagg

import "time"

// Reason is how a leg ended, in a constant word. It can be the label of metrics.
type Reason string

// Reasons.
const (
	// OK: it did what it was for.
	OK Reason = "ok"
	// Refused: the engine answered 4xx, which is the client's to hear.
	Refused Reason = "refused"
	// BadStatus: it answered with a status that is neither 2xx nor 4xx.
	BadStatus Reason = "bad-status"
	// ReportedError: it answered 200, and said that it failed.
	ReportedError Reason = "reported-error"
	// NoTransfer: it answered without kv_transfer_params: it does not hand over anything.
	NoTransfer Reason = "no-transfer-params"
	// Unreadable: its answer is not JSON, or not to be read.
	Unreadable Reason = "unreadable"
	// TooLarge: its answer is above the limit.
	TooLarge Reason = "too-large"
	// ConnectFailed: it could not be reached.
	ConnectFailed Reason = "connect-failed"
	// Reset: it broke the connection.
	Reset Reason = "reset"
	// Timeout: it took too long, or the budget was spent.
	Timeout Reason = "timeout"
	// NoBootstrap: the prefill engine's bootstrap server did not tell which engines there are.
	NoBootstrap Reason = "bootstrap-failed"
	// Abandoned: it was not needed any more: the decode leg had ended.
	Abandoned Reason = "abandoned"
	// Cancelled: the client left.
	Cancelled Reason = "cancelled"
	// NotContinued: a round of decoding was cut within something else than text, which the
	// next one could not go on with.
	NotContinued Reason = "not-continued"
	// NoRoom: the model has no room for another round.
	NoRoom Reason = "no-room"
	// Cached: it was not needed: the decoding engine had enough in its cache.
	Cached Reason = "cached"
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{
		OK, Refused, BadStatus, ReportedError, NoTransfer, Unreadable, TooLarge, ConnectFailed, Reset, Timeout,
		NoBootstrap, Abandoned, Cancelled, NotContinued, NoRoom, Cached,
	}
}

// Attempt is one prefill leg that has ended.
type Attempt struct {
	// Endpoint is where it went.
	Endpoint Endpoint
	// Reason is how it ended.
	Reason Reason
	// Status is that of the answer; 0 if there was none.
	Status int
	// Took is how long it took.
	Took time.Duration
	// PromptTokens and CachedTokens are what the engine reports. Negative: nothing.
	PromptTokens, CachedTokens int64
	// Err says more; nil if there is no more to say.
	Err error
}

// Served is by whom the client was answered.
type Served uint8

// Served values.
const (
	Nobody         Served = iota // nothing was answered yet
	ByDecode                     // by the decode leg, after or beside a prefill leg
	ByDecodeAlone                // by the decode leg without a prefill leg; Report.Reason says why
	ByPrefillAlone               // the answer is a prefill leg's, a failure that is passed on
)

// Report is what has happened.
type Report struct {
	// Attempts are the prefill legs that have ended, in their order.
	Attempts []Attempt
	// Served is by whom the answer is.
	Served Served
	// Reason is why the request was decoded without a prefill leg, or why the answer is
	// the prefill leg's; OK else.
	Reason Reason
	// AnsweredBy is the endpoint that the answer is from.
	AnsweredBy Endpoint
	// HandedBy is the endpoint from which the last decode leg was to fetch the prompt; zero
	// if it was to fetch it from nobody, or from a storage.
	HandedBy Endpoint
}

// Watcher is told of prefill legs as they go. Where both legs are sent at once it is called
// by another goroutine, one call at a time.
type Watcher interface {
	// PrefillBegins is called before a leg is sent.
	PrefillBegins(e Endpoint)
	// PrefillEnds is called once for each that has begun.
	PrefillEnds(a Attempt)
	// PrefillsHere is called when the engine that decodes has to prefill too.
	PrefillsHere(why Reason)
}

// Unwatched is a Watcher that does nothing.
type Unwatched struct{}

// PrefillBegins does nothing.
func (Unwatched) PrefillBegins(Endpoint) {}

// PrefillEnds does nothing.
func (Unwatched) PrefillEnds(Attempt) {}

// PrefillsHere does nothing.
func (Unwatched) PrefillsHere(Reason) {}

// PrefillError is why a request failed whose prefill leg had failed.
type PrefillError struct{ Attempt Attempt }

// Error returns the endpoint and how its leg ended.
func (e *PrefillError) Error() string {
	text := "prefill at " + e.Attempt.Endpoint.Address + ": " + string(e.Attempt.Reason)
	if e.Attempt.Err != nil {
		text += ": " + e.Attempt.Err.Error()
	}
	return text
}

// Unwrap returns what was behind it.
func (e *PrefillError) Unwrap() error { return e.Attempt.Err }
