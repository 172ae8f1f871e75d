package httpproxy

import (
	"context"
	"errors"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/disagg/body"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// encode has the request's media encoded by the stage's endpoints before anything else is
// done. The stage's reservation ends with it.
func (x *exchange) encode(ctx context.Context, s *route.Stage) error {
	if x.body == nil || !plain(x.r.Header["Content-Encoding"]) {
		x.takeOver(s, route.ReasonCapability)
		return nil
	}
	plan := &disagg.EncodePlan{Encoders: endpointsOf(s), Shared: s.Picked, Policy: policyOf(x.decision.Plan.Policy.Of(s.Name))}
	x.dog.pause()
	said, err := x.p.runner.Encode(ctx, plan, x.divided())
	x.dog.resume()
	for _, a := range said.Calls {
		x.p.metrics.encoded(a)
		x.p.staged(a)
	}
	var failed *disagg.EncodeError
	switch {
	case errors.As(err, &failed), ctx.Err() != nil:
		return err
	case err != nil, said.Items == 0: // of another API, or without anything to encode
		x.takeOver(s, route.ReasonCapability)
	case said.Local != disagg.OK:
		x.takeOver(s, route.ReasonStageFailed)
	case s.Reservation != nil:
		s.Reservation.Finish(true, route.NoUsage())
	}
	x.tell(said.Transfer)
	return nil
}

// tell puts into the request where those who have encoded its media keep what they have, if
// it is to be fetched from there. All who take part are told, also who does all by itself.
func (x *exchange) tell(params []byte) {
	if params == nil {
		return
	}
	o, err := body.Read(x.body.data)
	if err != nil {
		return // nobody has encoded anything of it
	}
	b, _ := o.Encoded(params).Alone()
	own := x.p.buffers.get(int(b.Size()))
	own.data = b.AppendTo(own.data)
	if x.asked == nil { // the prompt was read from it
		x.asked = x.body
	} else {
		x.body.release()
	}
	x.encoded, x.body = params, own
	dropDigests(x.headers())
}
