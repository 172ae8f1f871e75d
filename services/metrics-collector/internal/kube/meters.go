package kube

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// meters are what is shown of following the API server.
type meters struct {
	lists, events, errors metric.Int64Counter
	follows               metric.Int64Gauge
}

func newMeters(m metric.Meter) (*meters, error) {
	t := &meters{}
	var errs [4]error
	t.lists, errs[0] = m.Int64Counter("pointsman_metrics_collector_kubernetes_lists_total",
		metric.WithDescription("Times that all objects of a resource were read, by resource."))
	t.events, errs[1] = m.Int64Counter("pointsman_metrics_collector_kubernetes_events_total",
		metric.WithDescription("Changes of objects that the API server told, by resource."))
	t.errors, errs[2] = m.Int64Counter("pointsman_metrics_collector_kubernetes_errors_total",
		metric.WithDescription("Times that objects could not be followed or used, by resource and reason."))
	t.follows, errs[3] = m.Int64Gauge("pointsman_metrics_collector_kubernetes_following",
		metric.WithDescription("1 while the objects of a resource are followed, 0 while they cannot be, by resource."))
	return t, errors.Join(errs[:]...)
}

func of(resource string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("resource", resource))
}

func (t *meters) listed(resource string) { t.lists.Add(context.Background(), 1, of(resource)) }

func (t *meters) event(resource string) { t.events.Add(context.Background(), 1, of(resource)) }

func (t *meters) fault(resource string, r reason) {
	t.errors.Add(context.Background(), 1, metric.WithAttributes(attribute.String("resource", resource), attribute.String("reason", string(r))))
}

func (t *meters) following(resource string, yes bool) {
	n := int64(0)
	if yes {
		n = 1
	}
	t.follows.Record(context.Background(), n, of(resource))
}
