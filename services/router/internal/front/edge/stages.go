package edge

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Headers that tell a proxy beside the endpoint that decodes what to carry out. They are
// among RoutingHeaders: a client's are always removed, also where none is set.
const (
	HeaderPrefiller    = "x-prefiller-host-port"
	HeaderEncoders     = "x-encoder-hosts-ports"
	HeaderDataParallel = "x-data-parallel-host-port"
)

// StageHeaders returns the headers to set on the request that goes to the decision's
// endpoint, at d.AddressOf. With a data-parallel header no other endpoint may get it. Nil,
// nearly always, if there are none.
func StageHeaders(d *route.Decision) []route.Header {
	if d.Plan == nil {
		return nil
	}
	var all []route.Header
	if s := d.Plan.Stage(route.StagePrefill); s != nil {
		all = append(all, route.Header{Name: HeaderPrefiller, Value: s.Endpoints[0].Address})
	}
	if s := d.Plan.Stage(route.StageEncode); s != nil {
		list := s.Endpoints[0].Address
		for _, e := range s.Endpoints[1:s.Picked] {
			list += "," + e.Address
		}
		all = append(all, route.Header{Name: HeaderEncoders, Value: list})
	}
	if d.Plan.PrimaryPort != 0 {
		all = append(all, route.Header{Name: HeaderDataParallel, Value: d.Endpoint.Address})
	}
	return all
}

// Culprit returns the endpoint to blame for an answer of the endpoint e that counts as a
// failure. reason is the answer's x-pointsman-reason, by which the proxy beside e tells that
// it was another one's: nil if it is not known whose of several.
func Culprit(d *route.Decision, e *roster.Endpoint, reason string) *roster.Endpoint {
	switch reason {
	case PrefillFailed.String():
		if s := d.Plan.Stage(route.StagePrefill); s != nil {
			return s.Endpoints[0] // no other was named to the proxy
		}
	case EncodeFailed.String():
		if s := d.Plan.Stage(route.StageEncode); s != nil {
			if s.Picked > 1 {
				return nil
			}
			return s.Endpoints[0]
		}
	}
	return e
}

// Stages counts what became of the stages of requests. Counting allocates nothing.
type Stages struct {
	decided metric.Int64Counter
	local   metric.Int64Counter
	types   map[string][]metric.AddOption
	skips   map[route.Reason]map[string][]metric.AddOption // by reason and stage
}

// NewStages returns the metrics. Whoever makes them twice counts into the same.
func NewStages(m metric.Meter) (*Stages, error) {
	s := &Stages{types: make(map[string][]metric.AddOption), skips: make(map[route.Reason]map[string][]metric.AddOption)}
	var errs [2]error
	s.decided, errs[0] = m.Int64Counter("pointsman_router_disaggregation_total",
		metric.WithDescription("Decisions of profile handlers that know stages, by what requests go through: decode-only, prefill-decode, encode-decode, encode-prefill-decode."))
	s.local, errs[1] = m.Int64Counter("pointsman_router_decode_only_total",
		metric.WithDescription("Requests for which the endpoint that decodes did the work of a configured stage too, by stage and by reason."))
	for _, t := range []string{"decode-only", "prefill-decode", "encode-decode", "encode-prefill-decode"} {
		s.types[t] = []metric.AddOption{Label(attribute.String("type", t))}
	}
	for _, why := range route.Reasons() {
		s.skips[why] = make(map[string][]metric.AddOption)
		for _, stage := range []string{route.StagePrefill, route.StageEncode} {
			s.skips[why][stage] = []metric.AddOption{Label(attribute.String("stage", stage), attribute.String("reason", string(why)))}
		}
	}
	return s, errors.Join(errs[:]...)
}

// Decided counts a decision.
func (s *Stages) Decided(p *route.Plan) {
	if len(p.Stages)+len(p.Skipped) == 0 {
		return // it is about ports alone
	}
	s.decided.Add(context.Background(), 1, s.types[p.Type()]...)
	for i := range p.Skipped {
		s.Local(p.Skipped[i].Stage, p.Skipped[i].Reason)
	}
}

// Local counts a request whose stage is done by the endpoint that decodes. Those that are
// decided so are counted by whoever observes decisions; a front counts those whose stage
// failed (route.ReasonStageFailed), or that it cannot carry out
// (route.ReasonCapability).
func (s *Stages) Local(stage string, why route.Reason) {
	s.local.Add(context.Background(), 1, s.skips[why][stage]...)
}
