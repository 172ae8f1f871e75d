package follower

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments registers what is shown of the roster.
func (f *Follower) instruments(m metric.Meter) error {
	var errs [6]error
	f.resyncs, errs[0] = m.Int64Counter("pointsman_roster_resyncs_total", metric.WithDescription("Times a router's open picks were asked for after a lost message or on first hearing of it."))
	f.dropped, errs[1] = m.Int64Counter("pointsman_roster_dropped_messages_total", metric.WithDescription("Broadcast messages that could not be used, by kind."))
	endpoints, err := m.Int64ObservableGauge("pointsman_roster_endpoints", metric.WithDescription("Endpoints in the current table."))
	errs[2] = err
	stale, err := m.Int64ObservableGauge("pointsman_roster_stale_endpoints", metric.WithDescription("Endpoints whose figures are unknown or too old to be believed."))
	errs[3] = err
	age, err := m.Float64ObservableGauge("pointsman_roster_state_age_seconds", metric.WithDescription("Time since a collector was heard; -1 if never."))
	errs[4] = err
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s, now := f.roster.Snapshot(), f.roster.Now()
		old := 0
		for i := range s.Len() {
			if !s.Fresh(i, now) {
				old++
			}
		}
		o.ObserveInt64(endpoints, int64(s.Len()))
		o.ObserveInt64(stale, int64(old))
		if a, ok := f.StateAge(); ok {
			o.ObserveFloat64(age, a.Seconds())
		} else {
			o.ObserveFloat64(age, -1)
		}
		return nil
	}, endpoints, stale, age)
	return err
}
