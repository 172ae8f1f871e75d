package remote

import (
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

const (
	errorDomain   = "scorer.pointsman.dev"
	tableNotHeld  = "TABLE_NOT_HELD"
	overloadWords = "it sheds load"
	lateWords     = "no answer in time"
)

// fault is what an error of a scorer means for the call and for the replica.
type fault struct {
	verdict   route.Verdict
	reason    string
	blame     bool // the breaker shall know
	elsewhere bool // another replica may do better
	table     bool // it does not hold the table
}

// judge says what an error means. reason is the contract's, empty if there is none.
func judge(code codes.Code, reason, message string) fault {
	f := fault{verdict: route.Failed, reason: fmt.Sprintf("%s: %s", code, cut(message)), blame: true}
	if message == "" {
		f.reason = code.String()
	}
	switch code {
	case codes.DeadlineExceeded:
		f.verdict = route.TimedOut
		f.reason = lateWords + ": " + cut(message) // either side may have looked at the clock first
	case codes.ResourceExhausted:
		f.verdict, f.blame = route.Skipped, false
		f.reason = overloadWords + ": " + cut(message)
	case codes.InvalidArgument:
		f.blame = false // one odd request must not silence a scorer for all
	case codes.FailedPrecondition:
		f.table = reason == tableNotHeld
		f.blame = !f.table
	case codes.Unavailable:
		f.elsewhere = true
	}
	return f
}

// judgeError is judge for the error of a unary call.
func judgeError(err error) fault {
	s := status.Convert(err)
	reason := ""
	for _, d := range s.Details() {
		if e, ok := d.(*errdetails.ErrorInfo); ok && e.GetDomain() == errorDomain {
			reason = e.GetReason()
		}
	}
	return judge(s.Code(), reason, s.Message())
}
