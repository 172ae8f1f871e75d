package broadcast

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// instruments registers what is shown of the fleet.
func (c *Broadcaster) instruments(m metric.Meter) error {
	var errs [5]error
	gauge := func(i int, name, description string) (g metric.Int64ObservableGauge) {
		g, errs[i] = m.Int64ObservableGauge("pointsman_metrics_collector_"+name, metric.WithDescription(description))
		return g
	}
	endpoints := gauge(0, "endpoints", "Endpoints in the table.")
	owned := gauge(1, "owned_endpoints", "Endpoints that this collector scrapes.")
	stale := gauge(2, "stale_endpoints", "Endpoints, whoever scrapes them, whose newest figures are unknown or older than the staleness limit.")
	collectors := gauge(3, "live_collectors", "Collectors that share the endpoints, this one included.")
	takeOvers, err := m.Int64ObservableCounter("pointsman_metrics_collector_take_overs_total",
		metric.WithDescription("Endpoints taken over from collectors that died or left."))
	errs[4] = err
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(takeOvers, int64(c.fleet.TakeOvers())) //nolint:gosec // a count
		v := c.fleet.View()
		if v == nil {
			return nil
		}
		old := 0
		now := time.Now()
		for _, r := range c.fleet.Readings(v, nil) {
			if r.At.IsZero() || now.Sub(r.At) > c.cfg.StalenessLimit.D() {
				old++
			}
		}
		o.ObserveInt64(endpoints, int64(len(v.Members)))
		o.ObserveInt64(owned, int64(len(v.Owned)))
		o.ObserveInt64(stale, int64(old))
		o.ObserveInt64(collectors, int64(v.Collectors))
		return nil
	}, endpoints, owned, stale, collectors, takeOvers)
	return err
}
