package redis

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

type instruments struct {
	connected metric.Int64Gauge
	breaker   metric.Int64Gauge
	opened    metric.Int64Counter
	calls     metric.Int64Counter
	seconds   metric.Float64Histogram
	probes    metric.Int64Counter
}

func newInstruments(m metric.Meter) (*instruments, error) {
	var i instruments
	var err error
	fail := func(e error) {
		if err == nil && e != nil {
			err = fmt.Errorf("make the metrics of redis: %w", e)
		}
	}
	gauge := func(to *metric.Int64Gauge, name, what string) {
		var e error
		*to, e = m.Int64Gauge(name, metric.WithDescription(what))
		fail(e)
	}
	counter := func(to *metric.Int64Counter, name, what string) {
		var e error
		*to, e = m.Int64Counter(name, metric.WithDescription(what))
		fail(e)
	}
	gauge(&i.connected, "pointsman_redis_connected", "1 while Redis answers and is used, else 0.")
	gauge(&i.breaker, "pointsman_redis_breaker_state", "0 closed: calls go through; 1 half-open: it is tried whether they could; 2 open: none goes through.")
	counter(&i.opened, "pointsman_redis_breaker_opened_total", "Times that the breaker has opened.")
	counter(&i.calls, "pointsman_redis_calls_total", "Calls to Redis by what for (op) and result: ok, or the kind of failure: away (not asked), budget (no answer in time), unreachable, denied, read_only, full, moving, loading, script.")
	counter(&i.probes, "pointsman_redis_probes_total", "Attempts to come back to Redis, by result.")
	var e error
	i.seconds, e = m.Float64Histogram("pointsman_redis_call_duration_seconds", metric.WithDescription("Time of the calls that Redis answered, by op."), metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, 1))
	fail(e)
	return &i, err
}

func (i *instruments) setState(s state) {
	connected := int64(0)
	if s == closed {
		connected = 1
	}
	i.connected.Record(context.Background(), connected)
	i.breaker.Record(context.Background(), int64(s))
}

func (i *instruments) probed(kind Kind) {
	i.probes.Add(context.Background(), 1, metric.WithAttributes(attribute.String("result", result(kind))))
}

func (i *instruments) called(op string, kind Kind, elapsed time.Duration) {
	i.calls.Add(context.Background(), 1, metric.WithAttributes(attribute.String("op", op), attribute.String("result", result(kind))))
	if kind == "" {
		i.seconds.Record(context.Background(), elapsed.Seconds(), metric.WithAttributes(attribute.String("op", op)))
	}
}

func result(kind Kind) string {
	if kind == "" {
		return "ok"
	}
	return string(kind)
}
