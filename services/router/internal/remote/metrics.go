package remote

import (
	"context"
	"errors"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// background is for instruments, which take nothing from it.
var background = context.Background()

// tally is what is counted on the way of a call, without the cost of an instrument.
type tally struct {
	labels       []metric.RecordOption // scorer=<name>
	verdicts     [route.Skipped + 1]atomic.Uint64
	cancelled    atomic.Uint64 // the request was given up
	moved        atomic.Uint64 // asked of a second replica
	tableRetries atomic.Uint64 // asked again, since the table was not held
	taught       atomic.Uint64 // tables
	refused      atomic.Uint64 // instances, on connecting
	outcomes     [3]atomic.Uint64
}

// What becomes of outcome events, as indices of tally.outcomes.
const (
	outcomeSent = iota
	outcomeDropped
	outcomeFailed
)

// metrics are the instruments of all services.
type metrics struct {
	callSeconds metric.Float64Histogram
	batchCalls  metric.Int64Histogram
	breaches    metric.Int64Counter
}

// observed are the instruments that are read off the tallies.
type observed struct {
	calls, moved, tableRetries, taught, refused, outcomes metric.Int64ObservableCounter
	breaker, replicas                                     metric.Int64ObservableGauge
}

func newMetrics(m metric.Meter, services []*service) (*metrics, error) {
	for _, s := range services {
		s.tally.labels = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attribute.String("scorer", s.cfg.Name)))}
	}
	out := &metrics{}
	var errs [3]error
	out.callSeconds, errs[0] = m.Float64Histogram("pointsman_router_scorer_call_seconds", metric.WithUnit("s"),
		metric.WithDescription("Time from asking a scorer to its answer or the end of the wait."),
		metric.WithExplicitBucketBoundaries(.0001, .00025, .0005, .001, .0025, .005, .01, .02, .05, .1, .25, 1))
	out.batchCalls, errs[1] = m.Int64Histogram("pointsman_router_scorer_batch_calls",
		metric.WithDescription("Calls that went out in one message on a stream."),
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128, 256))
	out.breaches, errs[2] = m.Int64Counter("pointsman_router_scorer_contract_breaches_total",
		metric.WithDescription("Rules of the scorer contract that a scorer broke, by kind."))
	return out, errors.Join(append(errs[:], observe(m, services))...)
}

func (m *metrics) breach(s *service, kind string) {
	m.breaches.Add(background, 1, metric.WithAttributes(attribute.String("scorer", s.cfg.Name), attribute.String("kind", kind)))
}

// observe registers the instruments that are read off the tallies when asked.
func observe(m metric.Meter, services []*service) error {
	var o observed
	var errs []error
	var all []metric.Observable
	counter := func(into *metric.Int64ObservableCounter, name, description string) {
		c, err := m.Int64ObservableCounter(name, metric.WithDescription(description))
		*into = c
		all, errs = append(all, c), append(errs, err)
	}
	gauge := func(into *metric.Int64ObservableGauge, name, description string) {
		g, err := m.Int64ObservableGauge(name, metric.WithDescription(description))
		*into = g
		all, errs = append(all, g), append(errs, err)
	}
	counter(&o.calls, "pointsman_router_scorer_calls_total", "Score calls by what came of them.")
	counter(&o.moved, "pointsman_router_scorer_failovers_total", "Score calls that were asked of a second replica.")
	counter(&o.tableRetries, "pointsman_router_scorer_table_retries_total", "Score calls that were asked again since the scorer did not hold the table.")
	counter(&o.taught, "pointsman_router_scorer_tables_taught_total", "Endpoint tables that were taught on streams.")
	counter(&o.refused, "pointsman_router_scorer_refusals_total", "Plug-ins in use whose parameters or needs a scorer's replica was found not to fit.")
	counter(&o.outcomes, "pointsman_router_scorer_outcomes_total", "Outcome events for scorers that take them by call, by what came of them.")
	gauge(&o.breaker, "pointsman_router_scorer_breaker_state", "Breaker of a scorer: 0 closed, 1 half-open, 2 open.")
	gauge(&o.replicas, "pointsman_router_scorer_replicas", "Replicas of a scorer by state.")
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for _, s := range services {
			o.read(to, s)
		}
		return nil
	}, all...)
	return err
}

// read tells what the service has counted.
func (o *observed) read(to metric.Observer, s *service) {
	scorer := attribute.String("scorer", s.cfg.Name)
	with := func(kv ...attribute.KeyValue) metric.ObserveOption {
		return metric.WithAttributes(append(kv, scorer)...)
	}
	count := func(c metric.Int64ObservableCounter, n *atomic.Uint64, kv ...attribute.KeyValue) {
		to.ObserveInt64(c, int64(n.Load()), with(kv...)) //nolint:gosec // a count
	}
	t := &s.tally
	for v := route.Scored; v <= route.Skipped; v++ {
		count(o.calls, &t.verdicts[v], attribute.String("verdict", v.String()))
	}
	count(o.calls, &t.cancelled, attribute.String("verdict", "cancelled"))
	count(o.moved, &t.moved)
	count(o.tableRetries, &t.tableRetries)
	count(o.taught, &t.taught)
	count(o.refused, &t.refused)
	for i, result := range []string{"sent", "dropped", "failed"} {
		count(o.outcomes, &t.outcomes[i], attribute.String("result", result))
	}
	to.ObserveInt64(o.breaker, int64(s.breakerState()), with())
	for state, n := range s.replicaStates() {
		to.ObserveInt64(o.replicas, int64(n), with(attribute.String("state", state)))
	}
}
