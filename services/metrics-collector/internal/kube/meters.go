package kube

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// meters are what is shown of following the API server.
type meters struct {
	lists, events, errors metric.Int64Counter
	follows               metric.Int64Gauge

	mu      sync.Mutex
	sources map[any]state // those that are run
}

// state is that of one source.
type state struct {
	resource string
	follows  bool
}

func newMeters(m metric.Meter) (*meters, error) {
	t := &meters{sources: make(map[any]state)}
	var errs [4]error
	t.lists, errs[0] = m.Int64Counter("pointsman_metrics_collector_kubernetes_lists_total",
		metric.WithDescription("Times that all objects of a resource were read, by resource."))
	t.events, errs[1] = m.Int64Counter("pointsman_metrics_collector_kubernetes_events_total",
		metric.WithDescription("Changes of objects that the API server told, by resource."))
	t.errors, errs[2] = m.Int64Counter("pointsman_metrics_collector_kubernetes_errors_total",
		metric.WithDescription("Times that objects could not be followed or used, by resource and reason."))
	t.follows, errs[3] = m.Int64Gauge("pointsman_metrics_collector_kubernetes_following",
		metric.WithDescription("0 while objects of a resource that are to be followed cannot be, else 1, by resource."))
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

// following notes whether a source can be followed.
func (t *meters) following(source any, resource string, yes bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sources[source] = state{resource, yes}
	t.tell(resource)
}

// ended notes that a source is not to be followed any more: it is nobody's trouble then.
func (t *meters) ended(source any, resource string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sources, source)
	t.tell(resource)
}

// tell shows whether all sources of a resource are followed. Call it with mu held.
func (t *meters) tell(resource string) {
	n := int64(1)
	for _, s := range t.sources {
		if s.resource == resource && !s.follows {
			n = 0
		}
	}
	t.follows.Record(context.Background(), n, of(resource))
}
