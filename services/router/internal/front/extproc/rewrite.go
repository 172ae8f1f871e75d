package extproc

import (
	"strconv"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
)

// rewrite puts another model into the body if one is asked for, and the salts of the
// tenant. Nothing else of the body changes.
func (x *exchange) rewrite(got *prompt.Reading) *edge.Refusal {
	edits, f := x.s.deps.Salt.Edits(got, x.asked.request.Headers)
	if f != nil {
		return f
	}
	model, ok := x.target()
	if ok = ok && model != got.Model && got.Model != ""; ok {
		e, can := got.EditModel(model)
		if !can {
			return edge.Unwritable()
		}
		edits = append(edits, e)
	}
	if len(edits) == 0 {
		return nil
	}
	x.prompt.Release()
	edits = prompt.Edits(edits)
	for i := len(edits) - 1; i >= 0; i-- { // from behind, so that places stay
		x.body.replace(int(edits[i].Start), int(edits[i].End), edits[i].Text)
	}
	x.rewritten = true
	if x.head.length >= 0 {
		x.change.Set = append(x.change.Set, wire.Header{Name: headerLength, Value: strconv.Itoa(x.body.size)})
	}
	// Read it again: the endpoint sees this body, and prefixes belong to this model and salt.
	again, err := x.readBody()
	if err != nil {
		return edge.OfReading(again, err)
	}
	if ok {
		x.asked.request.ClientModel = got.Model
	}
	x.describe(again)
	return nil
}

// unrewritten tells of a request that goes on with the client's model although another
// was to take its place: its body is not here, or not all of it.
func (x *exchange) unrewritten() {
	x.s.metrics.unrewritten()
	x.s.warn(warnRewrite, "a model could not be rewritten, because the proxy does not send all of the request's body before it is decided; "+
		"set request_body_mode to FULL_DUPLEX_STREAMED", "mode", x.requestMode.String())
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
