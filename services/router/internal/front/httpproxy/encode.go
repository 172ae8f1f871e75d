package httpproxy

import (
	"context"
	"errors"

	"github.com/pointsman/pointsman/disagg"
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
	x.dog.rest()
	said, err := x.p.runner.Encode(ctx, plan, x.divided())
	x.dog.watch(x.p.cfg.FirstByteTimeout.D())
	for _, a := range said.Calls {
		x.p.metrics.encoded(a)
		x.p.blame(a)
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
	return nil
}
