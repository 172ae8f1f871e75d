package prompt

import "fmt"

// Reason says in one word why a body is refused.
type Reason string

// Reasons to refuse a body. All are the client's fault, or of what the operator asks of clients.
const (
	// BadJSON is a body that is not JSON, where only JSON can be served.
	BadJSON Reason = "bad-json"
	// TooDeep is JSON that is nested deeper than allowed.
	TooDeep Reason = "too-deep"
	// DuplicateKey is a body with one of model, messages, prompt, input twice: what
	// we read and what the engine reads could differ.
	DuplicateKey Reason = "duplicate-key"
	// BadModel is a model name that is not a string, or is absurdly long.
	BadModel Reason = "bad-model"
	// BadEncoding is a body that is not what its Content-Encoding says.
	BadEncoding Reason = "bad-encoding"
	// TooLarge is a compressed body that is too large when decoded.
	TooLarge Reason = "too-large"
	// Unwritable is a body into which what must be put cannot be.
	Unwritable Reason = "unwritable"
)

// Error is why a body is refused. Its text never quotes the body.
type Error struct {
	// Reason is the class of the fault.
	Reason Reason
	// Param is the body's field that is at fault; empty if it is the whole.
	Param string
	// Err tells more.
	Err error
}

// Error returns what is wrong, in words for the client.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

func refuse(r Reason, param, format string, args ...any) *Error {
	return &Error{Reason: r, Param: param, Err: fmt.Errorf(format, args...)}
}
