package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Results of a reload.
const (
	loadedResult  = "loaded"
	refusedResult = "refused"
)

// configMetrics shows which configuration is in use.
type configMetrics struct {
	reloads metric.Int64Counter
}

func newConfigMetrics(meter metric.Meter, c *configuration) (*configMetrics, error) {
	m := &configMetrics{}
	var errs [5]error
	m.reloads, errs[0] = meter.Int64Counter("pointsman_router_config_reloads_total",
		metric.WithDescription("Attempts to take another EndpointPickerConfig into use, by result: loaded, refused (the old one stays)."))
	for _, r := range []string{loadedResult, refusedResult} {
		if m.reloads != nil {
			m.reloads.Add(context.Background(), 0, metric.WithAttributes(attribute.String("result", r)))
		}
	}
	var at, ok metric.Float64ObservableGauge
	var info metric.Int64ObservableGauge
	at, errs[1] = meter.Float64ObservableGauge("pointsman_router_config_last_success_timestamp_seconds",
		metric.WithDescription("When the configuration in use was loaded, in seconds since 1970."))
	ok, errs[2] = meter.Float64ObservableGauge("pointsman_router_config_last_attempt_ok",
		metric.WithDescription("1 if the newest configuration is in use, 0 if it was refused."))
	info, errs[3] = meter.Int64ObservableGauge("pointsman_router_config_info",
		metric.WithDescription("1 for the configuration in use: where it came from, and a digest that is the same in all routers that use the same one."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	_, errs[4] = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.inUse == nil {
			return nil
		}
		o.ObserveFloat64(at, float64(c.loadedAt.UnixMilli())/1000)
		good := 0.0
		if c.refusedAt.IsZero() {
			good = 1
		}
		o.ObserveFloat64(ok, good)
		o.ObserveInt64(info, 1, metric.WithAttributes(attribute.String("source", c.origin.source), attribute.String("digest", digest(c.inUse.Given))))
		return nil
	}, at, ok, info)
	return m, errs[4]
}

// digest names a configuration, as it was given.
func digest(given []byte) string { return fmt.Sprintf("%016x", xxhash.Sum64(given)) }

func (m *configMetrics) count(result string) {
	m.reloads.Add(context.Background(), 1, metric.WithAttributes(attribute.String("result", result)))
}
