package httpproxy

import (
	"errors"
	"net/http"

	"github.com/pointsman/pointsman/disagg/body"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// guard removes from the body, once, what only those who divide requests may say to
// engines: a client would have them call whom it names. It is done where there are
// engines that listen to it: where the configuration has stages.
func (x *exchange) guard(d *route.Decision) *edge.Refusal {
	if x.guarded || d.Plan == nil || len(d.Plan.Stages)+len(d.Plan.Skipped) == 0 {
		return nil
	}
	x.guarded = true
	// Whatever the path: engines have more of them that generate than can be divided.
	if x.body == nil || !plain(x.r.Header["Content-Encoding"]) {
		return nil
	}
	o, err := body.Read(x.body.data)
	switch {
	case errors.Is(err, body.ErrTooMany):
		return &edge.Refusal{Status: http.StatusBadRequest, Reason: edge.BadBody, Message: err.Error()}
	case err != nil:
		return nil // no JSON object, so that it says nothing of the kind
	}
	alone, changed := o.Alone()
	if !changed {
		return nil
	}
	own := x.p.buffers.get(int(alone.Size()))
	own.data = alone.AppendTo(own.data)
	x.asked, x.body = x.body, own
	dropDigests(x.headers())
	return nil
}
