package httpproxy

import (
	"net/http"

	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Policy knows what operators say of requests.
type Policy interface {
	// PriorityOf returns the priority that a request's headers give it.
	PriorityOf(h route.Headers) int32
	// Rewrite returns the model that is to take the place of the request's, and false
	// if none is.
	Rewrite(r *route.Request) (model string, ok bool)
}

// Heed has requests follow a policy. Without one all have priority 0 and keep their
// models. Call it before the proxy serves.
func (p *Proxy) Heed(policy Policy) { p.policy = policy }

// rewrite puts another model into the body if one is asked for. Nothing else of the body
// changes, and nothing of the answer: the client sees the name that the endpoint gives
// itself.
func (x *exchange) rewrite(got *prompt.Reading) *failure {
	if x.p.policy == nil {
		return nil
	}
	model, ok := x.p.policy.Rewrite(x.request)
	if !ok {
		return nil
	}
	refusal := &failure{
		status: http.StatusUnsupportedMediaType, reason: notRewritable, param: "model",
		message: "this model is served under another name, which cannot be put into a body that is compressed or not JSON",
	}
	if x.body == nil {
		return refusal
	}
	changed := x.p.buffers.get(len(x.body.data) + len(model))
	if changed.data, ok = got.ReplaceModel(changed.data, x.body.data, model); !ok {
		changed.release()
		return refusal
	}
	x.prompt.Release()
	x.prompt, x.request.Prompt = nil, nil
	x.body.release()
	x.body = changed
	// Read it again: the endpoint sees this body, and prefixes belong to this model.
	again, f := x.read()
	if f != nil {
		return f
	}
	x.request.ClientModel = x.request.Model
	x.describe(again)
	return nil
}

// dropDigests removes the headers that say what the bytes of the body are, which they
// are no more.
func dropDigests(h http.Header) {
	for _, name := range []string{"Content-Digest", "Repr-Digest", "Digest", "Content-Md5"} {
		h.Del(name)
	}
}
