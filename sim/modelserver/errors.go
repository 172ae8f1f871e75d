package modelserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/pointsman/pointsman/sim/engine"
)

// apiError is an error for the client.
type apiError struct {
	status  int
	kind    string // vLLM's type
	param   string
	message string
}

func (e *apiError) Error() string { return e.message }

func badRequest(param, format string, args ...any) *apiError {
	return &apiError{http.StatusBadRequest, "BadRequestError", param, fmt.Sprintf(format, args...)}
}

// rejection is the error for a request that the engine did not take.
func rejection(reason engine.Reason, modelLen int) *apiError {
	switch reason {
	case engine.QueueFull:
		return &apiError{http.StatusServiceUnavailable, "ServiceUnavailableError", "", "The server is overloaded: its queue is full."}
	case engine.TooLong:
		return badRequest("", "This model's maximum context length is %d tokens. Please reduce the length of the messages.", modelLen)
	}
	return badRequest("", "The engine rejected the request: %v.", reason)
}

// errorBody is the error in OpenAI's shape, as vLLM fills it.
type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

// lostPrompt is vLLM's error for a request whose prompt did not arrive.
func lostPrompt() *apiError {
	return &apiError{http.StatusInternalServerError, "InternalServerError", "", "Internal server error"}
}

func (e *apiError) shaped() errorBody {
	body := errorBody{errorDetail{Message: e.message, Type: e.kind, Code: e.status}}
	if e.param != "" {
		body.Error.Param = &e.param
	}
	return body
}

// body is the error as JSON.
func (e *apiError) body() []byte { return mustJSON(e.shaped()) }

func (e *apiError) write(w http.ResponseWriter) { writeJSON(w, e.status, e.shaped()) }

// writeJSON answers with v, which must encode.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body := mustJSON(v)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}

// mustJSON encodes a value of our own types, which always encode.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("modelserver: encode %T: %v", v, err))
	}
	return b
}
