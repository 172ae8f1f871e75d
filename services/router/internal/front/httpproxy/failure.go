package httpproxy

import (
	"strconv"

	"github.com/pointsman/pointsman/services/router/internal/front/edge"
)

// write answers with a refusal and returns the length of its body.
func (x *exchange) write(f *edge.Refusal) int {
	body := f.Body(x.r.URL.Path)
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set(edge.HeaderReason, f.Reason.String())
	if f.Retry {
		h.Set("Retry-After", "1")
	}
	x.w.WriteHeader(f.Status)
	n, _ := x.w.Write(body)
	return n
}
