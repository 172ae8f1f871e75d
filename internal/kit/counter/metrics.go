package counter

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/internal/kit/redis"
)

type instruments struct {
	reservations metric.Int64Counter
	rewrites     metric.Int64Counter
	lost         metric.Int64Counter
	freed        metric.Int64Counter
	floored      metric.Int64Counter
}

func newInstruments(m metric.Meter, l *Leases) (*instruments, error) {
	var i instruments
	var errs []error
	for _, c := range []struct {
		to         *metric.Int64Counter
		name, what string
	}{
		{&i.reservations, "pointsman_leases_reservations_total", "Attempts to reserve a place over all routers, by result: shared, full (every endpoint at its limit), and why there was none: apart (the shared counts are not in step), or a kind of failure of Redis."},
		{&i.rewrites, "pointsman_leases_rewrites_total", "Times that all of this router's counts were written anew, by result."},
		{&i.lost, "pointsman_leases_lost_total", "Leases of this router that the store had forgotten, until they were written anew."},
		{&i.freed, "pointsman_leases_freed_total", "Leases of dead routers that this one has ended."},
		{&i.floored, "pointsman_leases_floored_total", "Times that a count would have gone below zero."},
	} {
		var err error
		*c.to, err = m.Int64Counter(c.name, metric.WithDescription(c.what))
		errs = append(errs, err)
	}
	held, err := m.Int64ObservableGauge("pointsman_leases_held", metric.WithDescription("Requests in flight that this router counts."))
	errs = append(errs, err)
	inStep, err := m.Int64ObservableGauge("pointsman_leases_in_step", metric.WithDescription("1 while the shared counts hold what this router holds, else 0: decisions then go by what the router itself knows. 1 also if nobody asks for shared counts."))
	errs = append(errs, err)
	_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(held, l.Held())
		good := int64(0)
		if !l.enabled() || l.InStep() {
			good = 1
		}
		o.ObserveInt64(inStep, good)
		return nil
	}, held, inStep)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("make the metrics of leases: %w", err)
	}
	return &i, nil
}

func (i *instruments) reserved(err error) {
	i.reservations.Add(context.Background(), 1, metric.WithAttributes(attribute.String("result", outcome(err, "shared"))))
}

func (i *instruments) rewritten(err error) {
	i.rewrites.Add(context.Background(), 1, metric.WithAttributes(attribute.String("result", outcome(err, "ok"))))
}

func (i *instruments) lapsed(n int64) { i.lost.Add(context.Background(), n) }

func (i *instruments) freedOf(n int64) { i.freed.Add(context.Background(), n) }

func (i *instruments) flooredBy(n int) {
	if n > 0 {
		i.floored.Add(context.Background(), int64(n))
	}
}

// outcome is the label of how a call went.
func outcome(err error, good string) string {
	switch {
	case err == nil:
		return good
	case errors.Is(err, ErrFull):
		return "full"
	case errors.Is(err, ErrApart), errors.Is(err, errLapsed):
		return "apart"
	}
	return string(redis.KindOf(err))
}
