package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// Reason is why the sidecar answers a request itself, in a constant word: the value of the
// header x-pointsman-reason.
type Reason string

// Reasons.
const (
	Denied        Reason = "target-denied"      // the header names whom nobody may call
	BadTarget     Reason = "bad-target"         // the header names no address, or is there twice
	UnknownRank   Reason = "unknown-rank"       // the header names no rank of this server
	BadBody       Reason = "bad-body"           // the body is no JSON object
	TooLarge      Reason = "too-large"          // the body is above the limit
	BuffersFull   Reason = "buffers-full"       // too many bytes of bodies are held
	BodyTimeout   Reason = "body-timeout"       // the client fell silent within its body
	PrefillFailed Reason = "prefill-failed"     // nobody prefilled, and it was to be so
	EncodeFailed  Reason = "encode-failed"      // nobody encoded, and it was to be so
	NotReady      Reason = "decode-unreachable" // the model server beside cannot be reached
	DecodeTimeout Reason = "decode-timeout"     // it did not begin to answer in time
	DecodeFailed  Reason = "decode-failed"      // it broke off
	Cancelled     Reason = "cancelled"          // the client has left
)

// refusal is an answer of the sidecar's own.
type refusal struct {
	status  int
	reason  Reason
	message string
}

// body returns it as the OpenAI API has errors.
func (r *refusal) body() []byte {
	kind := "server_error"
	switch {
	case r.status == http.StatusServiceUnavailable:
		kind = "ServiceUnavailable"
	case r.status < 500:
		kind = "invalid_request_error"
	}
	type fault struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}
	out, err := json.Marshal(struct {
		Error fault `json:"error"`
	}{fault{r.message, kind, nil, string(r.reason)}})
	if err != nil { // strings do not fail
		return []byte(`{"error":{"message":"internal error","type":"server_error","param":null,"code":"internal"}}`)
	}
	return out
}

// write answers with it.
func (r *refusal) write(w http.ResponseWriter) {
	b := r.body()
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("X-Pointsman-Reason", string(r.reason))
	if r.status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(b)
}
