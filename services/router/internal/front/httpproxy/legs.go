package httpproxy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// legs is what an exchange knows of a decision whose prompt another endpoint prefills.
type legs struct {
	of    *route.Decision
	stage *route.Stage
	run   *disagg.Run // nil: the endpoint that decodes prefills too
	// decisions is how many there were for the request, this one among them.
	decisions int
}

// reach sends the request to the endpoint and waits for the head of an answer, after or
// beside what others have to do for it.
func (x *exchange) reach(ctx context.Context, a *answer) error {
	if err := x.begin(ctx); err != nil {
		return err
	}
	e := a.from
	if x.legs.run != nil && slices.Contains(x.legs.stage.Endpoints, e) { // a fall-back that prefills: it can do both
		x.takeOver(x.legs.stage, route.ReasonSameEndpoint)
		x.legs.run = nil
	}
	run := x.legs.run
	if run == nil {
		resp, err := x.send(ctx, e) //nolint:bodyclose // exchange.close does
		a.resp = resp
		return err
	}
	resp, err := run.Send(ctx, disagg.Endpoint{ID: string(e.ID), Scheme: e.Scheme, Address: x.decision.AddressOf(e)}) //nolint:bodyclose // exchange.close does
	if err != nil {
		return err
	}
	a.resp = resp
	switch said := run.Report(); {
	case said.Served == disagg.ByPrefillAlone:
		a.passed = true
		a.from = x.legs.endpoint(said.AnsweredBy)
	case said.Served == disagg.ByDecodeAlone && said.Reason == disagg.Cached:
		x.spare()
	}
	return nil
}

// begin makes the legs of the decision, once, and has its media encoded. What cannot be
// carried out the endpoint that decodes does by itself, and that is counted.
func (x *exchange) begin(ctx context.Context) error {
	d := x.decision
	if x.legs.of == d {
		return nil
	}
	x.legs = legs{of: d, decisions: x.legs.decisions + 1}
	if d.Plan == nil {
		return nil
	}
	if d.Plan.Connector == route.ConnectorSidecar {
		d.LeftToProxy()
		return nil
	}
	if s := d.Plan.Stage(route.StageEncode); s != nil {
		if err := x.encode(ctx, s); err != nil {
			return err
		}
	}
	s := d.Plan.Stage(route.StagePrefill)
	if s == nil {
		return nil
	}
	run, err := x.divide(s)
	if err != nil {
		x.p.log.Debug("prompt is not prefilled elsewhere", "request_id", x.id, "error", err)
		x.takeOver(s, route.ReasonCapability)
		return nil
	}
	x.legs.stage, x.legs.run = s, run
	return nil
}

var errCompressed = errors.New("the body is compressed or empty")

// divide prepares the legs; it sends nothing.
func (x *exchange) divide(s *route.Stage) (*disagg.Run, error) {
	if x.body == nil || !plain(x.r.Header["Content-Encoding"]) {
		return nil, errCompressed
	}
	w := &stageWatcher{p: x.p, x: x, d: x.decision, s: s, on: s.Endpoints[0].ID}
	return x.p.runner.Begin(planOf(x.decision.Plan, s), x.divided(), w)
}

// divided is the request as those who take part get it.
func (x *exchange) divided() *disagg.Request {
	b, id := x.body, x.id
	if x.legs.decisions > 1 { // engines do not take an id twice
		id += "." + strconv.Itoa(x.legs.decisions)
	}
	return &disagg.Request{
		URL: x.r.URL, Header: x.headers(), ID: id, Body: b.data, Encoded: x.encoded,
		Retain: func() func() { b.hold(); return b.release },
	}
}

// plain is true for content encodings that are none.
func plain(encodings []string) bool {
	for _, e := range encodings {
		if e != "" && !strings.EqualFold(e, "identity") {
			return false
		}
	}
	return true
}

// planOf says in package disagg's words what is to be done.
func planOf(p *route.Plan, s *route.Stage) *disagg.Plan {
	return &disagg.Plan{
		Connector: disagg.Connector(p.Connector), BootstrapPort: p.Policy.BootstrapPort, P2P: disagg.P2P{Port: p.Policy.P2PPort},
		Prefill: endpointsOf(s), Policy: policyOf(p.Policy.Of(s.Name)),
	}
}

func endpointsOf(s *route.Stage) []disagg.Endpoint {
	out := make([]disagg.Endpoint, 0, len(s.Endpoints))
	for _, e := range s.Endpoints {
		out = append(out, disagg.Endpoint{ID: string(e.ID), Scheme: e.Scheme, Address: e.Address})
	}
	return out
}

func policyOf(p *route.StagePolicy) disagg.Policy {
	out := disagg.Policy{Attempts: p.Attempts, Timeout: p.Timeout, Budget: p.Budget}
	for _, a := range p.OnFailure {
		switch a {
		case route.RetryOther:
			out.OnFailure = append(out.OnFailure, disagg.RetryOther)
		case route.Local:
			out.OnFailure = append(out.OnFailure, disagg.LocalPrefill)
		default:
			out.OnFailure = append(out.OnFailure, disagg.Fail)
		}
	}
	return out
}

// takeOver has the endpoint that decodes do a stage's work.
func (x *exchange) takeOver(s *route.Stage, why route.Reason) {
	x.decision.TakeOver(s)
	x.p.metrics.stages.Local(s.Name, why)
}

// spare ends a stage whose work was not needed.
func (x *exchange) spare() {
	s := x.legs.stage
	if s.Reservation != nil {
		s.Reservation.Finish(false, route.NoUsage())
	}
	x.p.metrics.stages.Local(s.Name, route.ReasonCached)
}

// endpoint returns the stage's endpoint that an answer is from.
func (l *legs) endpoint(e disagg.Endpoint) *roster.Endpoint {
	for _, s := range l.stage.Endpoints {
		if string(s.ID) == e.ID {
			return s
		}
	}
	return l.stage.Endpoints[0]
}

// again is true if another endpoint of the same decision can decode: nothing has to be
// done for it once more.
func (x *exchange) again() bool {
	return x.legs.of != x.decision || x.legs.run == nil || x.legs.run.Reusable()
}

// refuseStage answers a request that failed because of what others were to do for it,
// they and nobody else.
func refuseStage(why edge.Reason, err error) *edge.Refusal {
	out := &edge.Refusal{Status: http.StatusBadGateway, Reason: why, Message: "the model server that was to prefill the prompt did not"}
	if why == edge.EncodeFailed {
		out.Message = "the model server that was to encode the media did not"
	}
	var prefill *disagg.PrefillError
	var encode *disagg.EncodeError
	if errors.As(err, &prefill) && prefill.Attempt.Reason == disagg.Timeout || errors.As(err, &encode) && encode.Attempt.Reason == disagg.Timeout {
		out.Status, out.Message = http.StatusGatewayTimeout, out.Message+" in time"
	}
	return out
}
