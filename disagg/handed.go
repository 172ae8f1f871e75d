package disagg

import (
	"context"
	"net/http"

	"github.com/pointsman/pointsman/disagg/body"
)

// handed runs the legs one after the other: what the first answers the second is told.
func (x *Run) handed(ctx context.Context, decode Endpoint) (*http.Response, error) {
	if x.transfer == nil {
		resp, err := x.ensure(ctx, x.o.NIXLPrefill(x.api), true)
		if resp != nil || err != nil {
			return resp, err
		}
		if x.local {
			return x.decodeAlone(ctx, decode)
		}
	}
	resp, err := x.decode(ctx, decode, x.o.NIXLDecode(x.transfer), true)
	if err == nil || !unsent(err) {
		x.transfer = nil // it may have been fetched, which is possible once
	}
	if err != nil {
		return nil, err
	}
	x.splice(resp)
	return resp, nil
}

// ensure runs prefill legs until one has done what it is for. With neither an answer nor
// an error it has, or x.local.
func (x *Run) ensure(ctx context.Context, b body.Body, want bool) (*http.Response, error) {
	x.start()
	for {
		r := x.prefill(ctx, x.plan.Prefill[x.at], b, x.prefillHeader(), want)
		x.note(&r)
		if r.Reason == OK {
			x.transfer, x.cached, x.prefilled = r.got.Transfer, r.got.Cached, true
			return nil, nil
		}
		resp, err := x.settle(ctx, &r)
		if resp != nil || err != nil || x.local {
			return resp, err
		}
	}
}
