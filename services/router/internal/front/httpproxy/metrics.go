package httpproxy

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
)

// instruments are the proxy's metrics.
type instruments struct {
	*edge.Meter

	firstByte metric.Float64Histogram
	retries   metric.Int64Counter
	prefills  metric.Int64Counter
	encodes   metric.Int64Counter
	transfers metric.Int64Counter
	blames    metric.Int64Counter
	prefill   metric.Float64Histogram
	stages    *edge.Stages

	// Label sets made beforehand, so that counting allocates nothing.
	why   [edge.Reasons][]metric.AddOption
	stale []metric.AddOption
	legs  map[disagg.Reason][]metric.AddOption
	roles [2][]metric.AddOption // decode, prefill
}

func newInstruments(m metric.Meter) (*instruments, error) {
	i := new(instruments)
	var errs [9]error
	i.Meter, errs[0] = edge.NewMeter(m, "http", "From the head of a request to the end of its answer.")
	i.firstByte, errs[1] = m.Float64Histogram("pointsman_router_http_first_byte_seconds",
		metric.WithDescription("From sending a request to an endpoint to the first byte of the answer's body, of the attempt that answered."), edge.Seconds(600))
	i.retries, errs[2] = m.Int64Counter("pointsman_router_http_retries_total",
		metric.WithDescription("Requests sent again before any byte of an answer, by what had failed."))
	i.prefills, errs[3] = m.Int64Counter("pointsman_router_http_prefill_legs_total",
		metric.WithDescription("Prefill legs that the HTTP front has run, by how they ended."))
	i.prefill, errs[4] = m.Float64Histogram("pointsman_router_http_prefill_seconds",
		metric.WithDescription("From sending a prefill leg to the end of its answer, of those that did what they were for."), edge.Seconds(600))
	i.encodes, errs[6] = m.Int64Counter("pointsman_router_http_encode_calls_total",
		metric.WithDescription("Calls by which the HTTP front has had media encoded, by how they ended."))
	i.transfers, errs[7] = m.Int64Counter("pointsman_router_http_transfer_failures_total",
		metric.WithDescription("Attempts that failed at an endpoint which was to fetch the prompt from another one, so that either may be at fault."))
	i.blames, errs[8] = m.Int64Counter("pointsman_router_http_transfer_blames_total",
		metric.WithDescription("Endpoints that were found to be at fault for such failures, by what they had to do: prefill, decode."))
	i.stages, errs[5] = edge.NewStages(m)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make the HTTP front's metrics: %w", err)
	}
	for r := range edge.Reasons {
		i.why[r] = []metric.AddOption{edge.Label(attribute.String("reason", r.String()))}
	}
	for r, name := range []string{"decode", "prefill"} {
		i.roles[r] = []metric.AddOption{edge.Label(attribute.String("role", name))}
	}
	i.stale = []metric.AddOption{edge.Label(attribute.String("reason", "stale-connection"))}
	i.legs = make(map[disagg.Reason][]metric.AddOption)
	for _, r := range disagg.Reasons() {
		i.legs[r] = []metric.AddOption{edge.Label(attribute.String("reason", string(r)))}
	}
	return i, nil
}

// leg counts a prefill leg.
func (i *instruments) leg(a disagg.Attempt) {
	i.prefills.Add(context.Background(), 1, i.legs[a.Reason]...)
	if a.Reason == disagg.OK {
		i.prefill.Record(context.Background(), a.Took.Seconds())
	}
}

// blamed counts an endpoint that is at fault for a prompt that did not arrive.
func (i *instruments) blamed(role int) { i.blames.Add(context.Background(), 1, i.roles[role]...) }

// encoded counts a call that had something encoded.
func (i *instruments) encoded(a disagg.Attempt) {
	i.encodes.Add(context.Background(), 1, i.legs[a.Reason]...)
}
