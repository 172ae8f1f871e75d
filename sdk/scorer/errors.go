package scorer

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
)

// Domain and reasons of google.rpc.ErrorInfo.
const (
	Domain                      = "scorer.pointsman.dev"
	ReasonInvalidRequest        = "INVALID_REQUEST"
	ReasonTableNotHeld          = "TABLE_NOT_HELD"
	ReasonOverloaded            = "OVERLOADED"
	ReasonDependencyUnavailable = "DEPENDENCY_UNAVAILABLE"
)

// Error is an error of the contract. gRPC sends it as a status with an ErrorInfo.
type Error struct {
	Code    codes.Code
	Reason  string // one of the reasons above, or empty
	Message string // for people, without user data
}

// InvalidRequest says that the request breaks a rule; it is never retried.
func InvalidRequest(format string, args ...any) error {
	return &Error{codes.InvalidArgument, ReasonInvalidRequest, fmt.Sprintf(format, args...)}
}

// TableNotHeld says that the table is not known here; the router lists the
// candidates then.
func TableNotHeld(digest uint64) error {
	return &Error{codes.FailedPrecondition, ReasonTableNotHeld, fmt.Sprintf("table %016x is not held here", digest)}
}

// Overloaded says that the scorer sheds load.
func Overloaded(format string, args ...any) error {
	return &Error{codes.ResourceExhausted, ReasonOverloaded, fmt.Sprintf(format, args...)}
}

// Unavailable says that something the scorer needs is down or warming up.
func Unavailable(format string, args ...any) error {
	return &Error{codes.Unavailable, ReasonDependencyUnavailable, fmt.Sprintf(format, args...)}
}

func missing(capability string) error {
	return &Error{codes.Unimplemented, "", "this scorer does not list " + capability}
}

func internal(format string, args ...any) error {
	return &Error{codes.Internal, "", fmt.Sprintf(format, args...)}
}

// Error implements error.
func (e *Error) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("%v: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("%v (%s): %s", e.Code, e.Reason, e.Message)
}

// GRPCStatus is what gRPC sends.
func (e *Error) GRPCStatus() *status.Status {
	s := status.New(e.Code, e.Message)
	if e.Reason == "" {
		return s
	}
	with, err := s.WithDetails(protoadapt.MessageV1Of(&errdetails.ErrorInfo{Reason: e.Reason, Domain: Domain}))
	if err != nil {
		return s // the code alone still says most of it
	}
	return with
}

// contract puts any error into the terms of the contract.
func contract(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{codes.DeadlineExceeded, "", "the time of the call is over"}
	}
	if errors.Is(err, context.Canceled) {
		return &Error{codes.Canceled, "", "the call was cancelled"}
	}
	s, ok := status.FromError(err)
	if !ok {
		return &Error{codes.Internal, "", err.Error()}
	}
	e = &Error{Code: s.Code(), Message: s.Message()}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == Domain {
			e.Reason = info.GetReason()
		}
	}
	return e
}

func notHeld(err error) bool {
	if err == nil {
		return false // the usual case; what follows allocates
	}
	var e *Error
	return errors.As(err, &e) && e.Reason == ReasonTableNotHeld
}
