package edge

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Refusal is an answer of a front's own, in the place of an endpoint's.
type Refusal struct {
	// Status is an HTTP status; 0 if nobody is there to be answered.
	Status int
	// Reason is why, in a word.
	Reason Reason
	// Message is for people. It holds nothing of the request's body.
	Message string
	// Param is the field at fault; empty if none is.
	Param string
	// Retry tells the client to come back in a second.
	Retry bool
}

// openAI and anthropic are errors as the two APIs have them.
type (
	openAI struct {
		Error openAIError `json:"error"`
	}
	openAIError struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}
	anthropic struct {
		Type  string         `json:"type"`
		Error anthropicError `json:"error"`
	}
	anthropicError struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
)

// Body returns the refusal as JSON in the shape of the API that the request's path
// belongs to: Anthropic's for messages, else OpenAI's.
func (r *Refusal) Body(path string) []byte {
	var shape any
	if speaksAnthropic(path) {
		shape = anthropic{Type: "error", Error: anthropicError{Type: r.anthropicType(), Message: r.Message}}
	} else {
		e := openAIError{Message: r.Message, Code: r.Reason.Code(), Type: r.openAIType()}
		if r.Param != "" {
			e.Param = &r.Param
		}
		shape = openAI{e}
	}
	out, err := json.Marshal(shape)
	if err != nil { // strings do not fail
		return []byte(`{"error":{"message":"internal error","type":"server_error","param":null,"code":"internal"}}`)
	}
	return out
}

// Event returns the refusal as a server-sent event that ends a stream of the API, and
// whatever event was cut before it.
func (r *Refusal) Event(path string) []byte {
	out := []byte("\n\n")
	if speaksAnthropic(path) {
		out = append(out, "event: error\n"...)
	}
	out = append(append(out, "data: "...), r.Body(path)...)
	return append(out, "\n\n"...)
}

// speaksAnthropic is true for the paths of the messages API.
func speaksAnthropic(path string) bool {
	_, below, found := strings.Cut(path, "/v1/messages")
	return found && (below == "" || below[0] == '/')
}

func (r *Refusal) openAIType() string {
	switch {
	case r.Status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case r.Status < 500:
		return "invalid_request_error"
	}
	return "server_error"
}

func (r *Refusal) anthropicType() string {
	switch r.Status {
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	}
	if r.Status < 500 {
		return "invalid_request_error"
	}
	return "api_error"
}

// OfBody makes a refusal of what package prompt refuses.
func OfBody(e *prompt.Error) *Refusal {
	r := &Refusal{Status: http.StatusBadRequest, Reason: BadBody, Message: e.Error(), Param: e.Param}
	switch e.Reason {
	case prompt.BadJSON:
		r.Reason = BadJSON
	case prompt.TooDeep:
		r.Reason = TooDeep
	case prompt.DuplicateKey:
		r.Reason = DuplicateKey
	case prompt.BadModel:
		r.Reason = BadModel
	case prompt.BadEncoding:
		r.Reason = BadEncoding
	case prompt.Unwritable:
		r.Status, r.Reason = http.StatusUnsupportedMediaType, NotRewritable
	case prompt.TooLarge:
		r.Status, r.Reason = http.StatusRequestEntityTooLarge, TooLarge
	}
	return r
}

// OfReading makes a refusal of a body, or of what was read of it; nil if there is nothing
// to refuse.
func OfReading(got *prompt.Reading, err error) *Refusal {
	if err != nil {
		var bad *prompt.Error
		if errors.As(err, &bad) {
			return OfBody(bad)
		}
		return &Refusal{Status: http.StatusBadRequest, Reason: BadBody, Message: "the body cannot be read"}
	}
	if got.Model == "" && got.Opaque == "" && got.Kind.NeedsModel() {
		return &Refusal{Status: http.StatusBadRequest, Reason: ModelMissing, Message: "the request does not name a model", Param: "model"}
	}
	return nil
}

// Larger is the refusal of a body above the limit, in bytes.
func Larger(limit int64) *Refusal {
	return &Refusal{Status: http.StatusRequestEntityTooLarge, Reason: TooLarge, Message: fmt.Sprintf("the body is larger than %d bytes", limit)}
}

// Full is the refusal of a body for which there is no room.
func Full() *Refusal {
	return &Refusal{Status: http.StatusServiceUnavailable, Reason: BuffersFull, Retry: true, Message: "the router holds as many bytes of request bodies as it may"}
}

// Unwritable is the refusal of a body into which another model cannot be put.
func Unwritable() *Refusal {
	return &Refusal{
		Status: http.StatusUnsupportedMediaType, Reason: NotRewritable, Param: "model",
		Message: "this model is served under another name, which cannot be put into a body that is compressed or not JSON",
	}
}

// Unserved is the refusal of a path that is not for clients.
func Unserved() *Refusal {
	return &Refusal{Status: http.StatusNotFound, Reason: NotFound, Message: "this path is not served here"}
}

// OfDecision makes a refusal of why a decision has no endpoint.
func OfDecision(err error) *Refusal {
	unavailable := func(why Reason, message string) *Refusal {
		return &Refusal{Status: http.StatusServiceUnavailable, Reason: why, Message: message, Retry: true}
	}
	switch {
	case errors.Is(err, route.ErrShed):
		return &Refusal{Status: http.StatusTooManyRequests, Reason: Shed, Message: "the model servers are busy, try again later", Retry: true}
	case errors.Is(err, route.ErrScorerFailed):
		return unavailable(ScorerFailed, "a scorer that must answer did not")
	case errors.Is(err, route.ErrNoEndpoint):
		return unavailable(NoEndpoint, "no model server can serve the request")
	default:
		return unavailable(Late, "the decision took too long")
	}
}
