package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// children are the parts of a process that have a label of their own.
type children struct {
	mu  sync.Mutex
	all map[*Telemetry]bool
}

// list returns the children, in any order.
func (c *children) list() []*Telemetry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.all))
}

func (c *children) set(child *Telemetry, there bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if there {
		c.all[child] = true
	} else {
		delete(c.all, child)
	}
}

// Child returns telemetry for one of several equal things in one process, such as one of the pools that it serves. Log lines
// and metrics of the child carry label=value, so they do not mix with those of its siblings, and its health is its own: it does
// not make the process unready. Its metrics are shown and exported with t's until done is called. A child has no admin pages:
// its Part and Handle must not be used.
func (t *Telemetry) Child(label, value string) (child *Telemetry, done func(), err error) {
	child = &Telemetry{
		Log:     t.Log.With(label, value),
		Tracer:  t.Tracer,
		Health:  new(Health),
		service: t.service,
		build:   t.build,
		labels:  prometheus.Labels{label: value},

		instruments: t.instruments,
	}
	if t.export != nil {
		own, err := resource.Merge(t.export.resource, resource.NewSchemaless(attribute.String("pointsman."+label, value)))
		if err != nil {
			return nil, nil, fmt.Errorf("describe %s %q to OpenTelemetry: %w", label, value, err)
		}
		child.export = &export{resource: own, reader: sdkmetric.NewManualReader(sdkmetric.WithAggregationSelector(aggregation))}
	}
	if err := child.openMetrics(); err != nil {
		return nil, nil, err
	}
	t.children.set(child, true)
	if t.export != nil {
		t.export.add(child.export.reader)
	}
	return child, func() {
		t.children.set(child, false)
		if t.export != nil {
			t.export.remove(child.export.reader)
		}
	}, nil
}

// Gather implements [prometheus.Gatherer]: the metrics of t and of its children.
func (t *Telemetry) Gather() ([]*dto.MetricFamily, error) {
	gatherers := prometheus.Gatherers{t.registry}
	for _, c := range t.children.list() {
		gatherers = append(gatherers, c.registry)
	}
	return gatherers.Gather()
}
