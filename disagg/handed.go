package disagg

import (
	"context"
	"net/http"

	"github.com/pointsman/pointsman/disagg/body"
)

// handed runs the legs one after the other: what the first leads to the second is told.
func (x *Run) handed(ctx context.Context, decode Endpoint) (*http.Response, error) {
	if x.transfer == nil {
		resp, err := x.ensure(ctx, func(from Endpoint) asked { return x.handOver(from, decode) })
		if resp != nil || err != nil {
			return resp, err
		}
		if x.local {
			return x.decodeAlone(ctx, decode)
		}
	}
	x.report.HandedBy = x.plan.Prefill[x.at]
	resp, err := x.decode(ctx, decode, x.o.NIXLDecode(x.transfer), true)
	if err == nil || !unsent(err) || x.plan.MoRIIO != nil {
		x.transfer = nil // it may have been fetched, which is possible once, or was written to this engine
	}
	if err != nil {
		return nil, err
	}
	x.splice(resp)
	return resp, nil
}

// handOver says what a prefill leg is sent.
func (x *Run) handOver(from, decode Endpoint) asked {
	switch {
	case x.plan.Connector == Offloading:
		return x.offloaded(from)
	case x.plan.MoRIIO != nil:
		return x.written(from, decode)
	}
	return asked{body: x.o.Handing(x.api, x.pulling(body.AskTransfer, from)), want: true}
}

// asked is what a prefill leg is sent.
type asked struct {
	body body.Body
	// rank is the data-parallel rank that does it. Empty: any.
	rank string
	// want says that the leg must answer with kv_transfer_params.
	want bool
	// answered makes of these what the decode leg is told. Nil: just that.
	answered func(transfer []byte) []byte
}

// ensure runs prefill legs until one has done what it is for. With neither an answer nor
// an error it has, or x.local.
func (x *Run) ensure(ctx context.Context, ask func(from Endpoint) asked) (*http.Response, error) {
	x.start()
	for {
		from := x.plan.Prefill[x.at]
		h := x.prefillHeader()
		a := ask(from)
		setRank(h, a.rank)
		r := x.prefill(ctx, from, a.body, h, a.want)
		x.note(&r)
		if r.Reason == OK {
			x.transfer, x.cached, x.prefilled = r.got.Transfer, r.got.Cached, true
			if a.answered != nil {
				x.transfer = a.answered(r.got.Transfer)
			}
			return nil, nil
		}
		resp, err := x.settle(ctx, &r)
		if resp != nil || err != nil || x.local {
			return resp, err
		}
	}
}
