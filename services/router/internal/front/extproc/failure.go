package extproc

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// reason is why an exchange ended as it did. It is the label of metrics and the value
// of the header x-pointsman-reason.
type reason uint8

const (
	ok reason = iota
	cancelled
	unseen
	cutShort
	badAnswer
	badJSON
	tooDeep
	duplicateKey
	badModel
	badEncoding
	modelMissing
	notRewritable
	tooLarge
	noEndpoint
	shed
	scorerFailed
	late
	badMessage
	reasonCount
)

var reasonNames = [reasonCount]string{
	ok:         "ok",
	cancelled:  "cancelled",  // before it was decided
	unseen:     "unseen",     // decided, and nothing of an answer was seen
	cutShort:   "cut-short",  // the end of the answer was not seen
	badAnswer:  "bad-answer", // of a status that counts as a failure
	badJSON:    "bad-json",
	tooDeep:    "too-deep",
	badModel:   "bad-model",
	badMessage: "bad-message", // from the proxy

	duplicateKey: "duplicate-key", badEncoding: "bad-encoding", modelMissing: "model-missing", notRewritable: "not-rewritable",
	tooLarge: "too-large", noEndpoint: "no-endpoint", shed: "shed", scorerFailed: "scorer-failed", late: "late",
}

func (r reason) String() string { return reasonNames[r] }

// failure is an answer of our own.
type failure struct {
	status  int // 0: nobody is there to be answered
	reason  reason
	message string
	param   string // the field at fault, if there is one
	retry   bool   // tell the client to come back in a second
}

// errorBody is an OpenAI error.
type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// body returns the failure as an OpenAI error.
func (f *failure) body() []byte {
	d := errorDetail{Message: f.message, Code: f.code(), Type: "server_error"}
	switch {
	case f.status == http.StatusTooManyRequests:
		d.Type = "rate_limit_error"
	case f.status < 500:
		d.Type = "invalid_request_error"
	}
	if f.param != "" {
		d.Param = &f.param
	}
	out, err := json.Marshal(errorBody{d})
	if err != nil {
		return []byte(`{"error":{"message":"internal error","type":"server_error","param":null,"code":"internal"}}`)
	}
	return out
}

// code is the reason as OpenAI spells codes.
func (f *failure) code() string {
	out := []byte(f.reason.String())
	for i, c := range out {
		if c == '-' {
			out[i] = '_'
		}
	}
	return string(out)
}

// refuse answers the client in the place of an endpoint and ends the stream.
func (x *exchange) refuse(f *failure) error {
	x.over, x.why = true, f.reason
	if f.status == 0 {
		return nil
	}
	x.head.identify()
	x.s.log.Debug("request refused", "request_id", x.head.id, "status", f.status, "reason", f.reason.String())
	x.status = f.status
	headers := []wire.Header{
		{Name: "content-type", Value: "application/json"}, {Name: headerReason, Value: f.reason.String()},
		{Name: headerRequestID, Value: x.head.id},
	}
	if f.retry {
		headers = append(headers, wire.Header{Name: "retry-after", Value: "1"})
	}
	x.out.Immediate(&wire.Immediate{Status: f.status, Headers: headers, Body: f.body(), Details: "pointsman_" + f.code()})
	return x.send()
}

// refused makes a failure of what package prompt refuses.
func refused(e *prompt.Error) *failure {
	f := &failure{status: http.StatusBadRequest, reason: badJSON, message: e.Error(), param: e.Param}
	switch e.Reason {
	case prompt.TooDeep:
		f.reason = tooDeep
	case prompt.DuplicateKey:
		f.reason = duplicateKey
	case prompt.BadModel:
		f.reason = badModel
	case prompt.BadEncoding:
		f.reason = badEncoding
	case prompt.TooLarge:
		f.status, f.reason = http.StatusRequestEntityTooLarge, tooLarge
	}
	return f
}

// undecided makes a failure of a decision without an endpoint.
func undecided(err error) *failure {
	unavailable := func(r reason, message string) *failure {
		return &failure{status: http.StatusServiceUnavailable, reason: r, message: message, retry: true}
	}
	switch {
	case errors.Is(err, route.ErrShed):
		return &failure{status: http.StatusTooManyRequests, reason: shed, message: "the model servers are busy, try again later", retry: true}
	case errors.Is(err, route.ErrScorerFailed):
		return unavailable(scorerFailed, "a scorer that must answer did not")
	case errors.Is(err, route.ErrNoEndpoint):
		return unavailable(noEndpoint, "no model server can serve the request")
	default:
		return unavailable(late, "the decision took too long")
	}
}
