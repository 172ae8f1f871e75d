package app

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/decisions"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// observer counts decisions and keeps them for those who watch.
type observer struct {
	log       *decisions.Log
	decisions metric.Int64Counter
	seconds   metric.Float64Histogram
	fallbacks metric.Int64Counter
	outcomes  map[string][]metric.AddOption // by outcome: made once, so that counting allocates nothing
	reasons   map[string][]metric.AddOption
	admission metric.Int64Counter
	results   map[string][]metric.AddOption
	rewrites  metric.Int64Counter
	stages    *edge.Stages
}

func newObserver(log *decisions.Log, tel *telemetry.Telemetry) (*observer, error) {
	o := &observer{log: log, outcomes: make(map[string][]metric.AddOption), reasons: make(map[string][]metric.AddOption)}
	for _, v := range []string{"picked", "no_endpoint", "shed", "scorer_failed", "cancelled"} {
		o.outcomes[v] = label("outcome", v)
	}
	for _, v := range []string{"no_scores", "quarantine_waived"} {
		o.reasons[v] = label("reason", v)
	}
	o.results = make(map[string][]metric.AddOption)
	for _, v := range []string{"admitted", "shed", "nobody"} {
		o.results[v] = label("result", v)
	}
	var errs [5]error
	o.decisions, errs[0] = tel.Meter.Int64Counter("pointsman_router_decisions_total", metric.WithDescription("Decisions by outcome: picked, no_endpoint, shed, scorer_failed, cancelled."))
	o.seconds, errs[1] = tel.Meter.Float64Histogram("pointsman_router_decision_seconds", metric.WithDescription("From reading the request to the pick."))
	o.fallbacks, errs[2] = tel.Meter.Int64Counter("pointsman_router_fallbacks_total", metric.WithDescription("Decisions made without something they should have had: no_scores (no scorer gave any), quarantine_waived (all endpoints were out)."))
	o.admission, errs[3] = tel.Meter.Int64Counter("pointsman_router_admission_total", metric.WithDescription("Decisions by admission: admitted, shed (no room, and the request can be turned away), nobody (there was no endpoint to be let in to)."))
	o.rewrites, errs[4] = tel.Meter.Int64Counter("pointsman_router_model_rewrites_total", metric.WithDescription("Decisions on requests whose model was replaced by another."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	var err error
	o.stages, err = edge.NewStages(tel.Meter)
	return o, err
}

func label(name, value string) []metric.AddOption {
	return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attribute.String(name, value)))}
}

// Decided counts a decision and shows it.
func (o *observer) Decided(d *route.Decision) {
	ctx := context.Background()
	o.decisions.Add(ctx, 1, o.outcomes[outcomeOf(d.Err)]...)
	o.seconds.Record(ctx, d.Elapsed.Seconds())
	o.admission.Add(ctx, 1, o.results[admissionOf(&d.Admission)]...)
	if d.Request.ClientModel != "" {
		o.rewrites.Add(ctx, 1)
	}
	if d.QuarantineWaived {
		o.fallbacks.Add(ctx, 1, o.reasons["quarantine_waived"]...)
	}
	for _, r := range d.Results {
		if r.LeastLoad {
			o.fallbacks.Add(ctx, 1, o.reasons["no_scores"]...)
		}
	}
	if d.Plan != nil {
		o.stages.Decided(d.Plan)
	}
	o.log.Decided(d)
}

func admissionOf(a *route.Admission) string {
	switch {
	case !a.Asked:
		return "nobody"
	case a.Shed:
		return "shed"
	default:
		return "admitted"
	}
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "picked"
	case errors.Is(err, route.ErrShed):
		return "shed"
	case errors.Is(err, route.ErrScorerFailed):
		return "scorer_failed"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "cancelled"
	default:
		return "no_endpoint"
	}
}
