package httpproxy

import (
	"errors"
	"net/http"
	"strings"

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
	if x.body == nil {
		return nil
	}
	if !plain(x.r.Header["Content-Encoding"]) {
		if err := body.Compressed(x.body.data); err != nil {
			return &edge.Refusal{Status: http.StatusBadRequest, Reason: edge.BadBody, Message: err.Error()}
		}
		return nil
	}
	o, err := body.Read(x.body.data)
	switch {
	case errors.Is(err, body.ErrNotObject):
		return nil // it says nothing of the kind
	case errors.Is(err, body.ErrTooMany), err != nil && len(x.body.data) > 0 && mayBeJSON(x.r.Header["Content-Type"]):
		return &edge.Refusal{Status: http.StatusBadRequest, Reason: edge.BadBody, Message: err.Error()}
	case err != nil:
		return nil // a form, or the like
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

// mayBeJSON is true for the types of bodies that engines read as JSON, or as what they take for
// it: Python's reads NaN too, and UTF-16. What cannot be read here could say anything there.
func mayBeJSON(types []string) bool {
	for _, t := range types {
		t, _, _ = strings.Cut(t, ";")
		if t = strings.ToLower(strings.TrimSpace(t)); t == "" || strings.HasSuffix(t, "json") {
			return true
		}
	}
	return len(types) == 0
}
