package httpproxy

import (
	"net/http"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
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

// Salt has bodies given salts that keep tenants apart. Call it before the proxy serves.
func (p *Proxy) Salt(s *edge.Salter) { p.salt = s }

// rewrite puts another model into the body if one is asked for, and the salts of the
// tenant. Nothing else of the body changes, and nothing of the answer: the client sees the
// name that the endpoint gives itself.
func (x *exchange) rewrite(got *prompt.Reading) *edge.Refusal {
	edits, f := x.p.salt.Edits(got, x.request.Headers)
	if f != nil {
		return f
	}
	model, ok := x.target()
	if ok {
		e, can := got.EditModel(model)
		if !can || x.body == nil {
			return edge.Unwritable()
		}
		edits = append(edits, e)
	}
	if len(edits) == 0 {
		return nil
	}
	more := 0
	for _, e := range edits {
		more += len(e.Text)
	}
	changed := x.p.buffers.get(len(x.body.data) + more)
	changed.data = prompt.Apply(changed.data, x.body.data, prompt.Edits(edits))
	x.prompt.Release()
	x.prompt, x.request.Prompt = nil, nil
	x.body.release()
	x.body = changed
	// Read it again: the endpoint sees this body, and prefixes belong to this model and salt.
	again, f := x.read()
	if f != nil {
		return f
	}
	if ok {
		x.request.ClientModel = x.request.Model
	}
	x.describe(again)
	return nil
}

// target returns the model that is to take the place of the request's.
func (x *exchange) target() (string, bool) {
	if x.p.policy == nil {
		return "", false
	}
	return x.p.policy.Rewrite(x.request)
}

// dropDigests removes the headers that say what the bytes of the body are, which they
// are no more.
func dropDigests(h http.Header) {
	for _, name := range []string{"Content-Digest", "Repr-Digest", "Digest", "Content-Md5"} {
		h.Del(name)
	}
}
