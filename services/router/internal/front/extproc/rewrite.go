package extproc

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
)

// rewrite puts another model into the body if one is asked for. Nothing else of the
// body changes.
func (x *exchange) rewrite(got *prompt.Reading) *failure {
	model, ok := x.target()
	if !ok || model == got.Model || got.Model == "" {
		return nil
	}
	if got.ModelEnd == 0 {
		return &failure{
			status: http.StatusUnsupportedMediaType, reason: notRewritable, param: "model",
			message: "this model is served under another name, which cannot be put into a body that is compressed or not JSON",
		}
	}
	x.prompt.Release()
	x.body.replace(int(got.ModelStart), int(got.ModelEnd), quoted(model))
	x.rewritten = true
	if x.head.length >= 0 {
		x.change.Set = append(x.change.Set, wire.Header{Name: headerLength, Value: strconv.Itoa(x.body.size)})
	}
	// Read it again: the endpoint sees this body, and prefixes belong to this model.
	again, err := x.readBody()
	if err != nil {
		return &failure{status: http.StatusBadRequest, reason: badJSON, message: "the body cannot be read"}
	}
	x.asked.request.ClientModel = got.Model
	x.describe(again)
	return nil
}

// target returns the model that is asked for in place of the request's.
func (x *exchange) target() (string, bool) {
	if x.head.model != "" {
		return x.head.model, true
	}
	if x.s.deps.Rewrite == nil {
		return "", false
	}
	return x.s.deps.Rewrite(&x.asked.request)
}

// quoted returns the name as it stands in JSON, without its quotes.
func quoted(model string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(model) // strings and buffers do not fail
	return bytes.TrimSuffix(bytes.TrimPrefix(b.Bytes(), []byte{'"'}), []byte("\"\n"))
}
