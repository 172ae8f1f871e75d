package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// reason is why something could not be read, as it stands in metrics.
type reason string

const (
	unreachable reason = "unreachable" // no answer
	forbidden   reason = "forbidden"   // missing rights, or a token that is not accepted
	absent      reason = "absent"      // the type is not installed
	expired     reason = "expired"     // the place to go on from is too old
	overloaded  reason = "overloaded"  // asked to come back later
	refused     reason = "refused"     // another answer than 200
	garbled     reason = "garbled"     // not what the API server should say
	invalid     reason = "invalid"     // an object that says something impossible
)

// fault is something that could not be read.
type fault struct {
	reason reason
	err    error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// reasonOf returns the reason of an error.
func reasonOf(err error) reason {
	if f, is := errors.AsType[*fault](err); is {
		return f.reason
	}
	return unreachable
}

// refusal makes a fault of an answer's status and of the Status object in it.
func refusal(code int, text []byte) *fault {
	var status struct {
		Message string `json:"message"`
	}
	message := ""
	if json.Unmarshal(text, &status) == nil {
		message = status.Message
	}
	if message == "" {
		message = http.StatusText(code)
	}
	f := &fault{refused, fmt.Errorf("status %d: %.500s", code, message)}
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		f.reason = forbidden
	case http.StatusNotFound:
		f.reason = absent
	case http.StatusGone:
		f.reason = expired
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		f.reason = overloaded
	}
	return f
}
