package httpproxy

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/pointsman/pointsman/services/router/internal/prompt"
)

// reason is why a request ended as it did. It is the label of metrics and the value
// of the header x-pointsman-reason.
type reason uint8

const (
	ok reason = iota
	cancelled
	notFound
	modelNotFound
	upgrade
	badBody
	badJSON
	tooDeep
	duplicateKey
	badModel
	badEncoding
	modelMissing
	notRewritable
	bodyTimeout
	tooLarge
	buffersFull
	noEndpoint
	shed
	scorerFailed
	connectFailed
	reset
	firstByteTimeout
	idleTimeout
	badAnswer
	internal
	reasonCount
)

var reasonNames = [reasonCount]string{
	ok: "ok", cancelled: "cancelled", notFound: "not-found", modelNotFound: "model-not-found", upgrade: "upgrade",
	badBody: "bad-body", badJSON: "bad-json", tooDeep: "too-deep", duplicateKey: "duplicate-key", badModel: "bad-model",
	badEncoding: "bad-encoding", modelMissing: "model-missing", notRewritable: "not-rewritable", bodyTimeout: "body-timeout", tooLarge: "too-large", buffersFull: "buffers-full",
	noEndpoint: "no-endpoint", shed: "shed", scorerFailed: "scorer-failed", connectFailed: "connect-failed", reset: "reset",
	firstByteTimeout: "first-byte-timeout", idleTimeout: "idle-timeout", badAnswer: "bad-answer", internal: "internal",
}

func (r reason) String() string { return reasonNames[r] }

// failure is an answer of our own.
type failure struct {
	status  int
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

// write answers with the failure.
func (f *failure) write(w http.ResponseWriter) int {
	body := f.body()
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set(headerReason, f.reason.String())
	if f.retry {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(f.status)
	n, _ := w.Write(body)
	return n
}

// refused makes a failure of what package prompt refuses.
func refused(e *prompt.Error) *failure {
	f := &failure{status: http.StatusBadRequest, reason: badBody, message: e.Error(), param: e.Param}
	switch e.Reason {
	case prompt.BadJSON:
		f.reason = badJSON
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
