package bus

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Kinds of error in pointsman_bus_errors_total.
const (
	kindOffline      = "offline"       // not sent: no connection
	kindTooLarge     = "too_large"     // not sent: above the server's limit
	kindSend         = "send"          // not sent for another reason
	kindDecode       = "decode"        // received, but not a message of the subject's type
	kindStamp        = "stamp"         // received without publisher or sequence
	kindLate         = "late"          // received after a later one of the same publisher
	kindSlowConsumer = "slow_consumer" // received faster than handled, so some were dropped
	kindPermission   = "permission"    // forbidden by the server
	kindOther        = "other"
)

type instruments struct {
	connected metric.Int64Gauge
	published metric.Int64Counter
	received  metric.Int64Counter
	gaps      metric.Int64Counter
	lost      metric.Int64Counter
	errors    metric.Int64Counter
}

func newInstruments(m metric.Meter) (*instruments, error) {
	var i instruments
	var err error
	if i.connected, err = m.Int64Gauge("pointsman_bus_connected",
		metric.WithDescription("1 while connected to NATS, else 0.")); err != nil {
		return nil, fmt.Errorf("make the bus's metrics: %w", err)
	}
	for _, c := range []struct {
		to         *metric.Int64Counter
		name, what string
	}{
		{&i.published, "pointsman_bus_published_total", "Messages handed to NATS, answers included."},
		{&i.received, "pointsman_bus_received_total", "Messages received from NATS and decoded, questions included."},
		{&i.gaps, "pointsman_bus_gaps_total", "Times that messages of a publisher were found missing."},
		{&i.lost, "pointsman_bus_lost_total", "Messages that were missing in those gaps."},
		{&i.errors, "pointsman_bus_errors_total", "Messages not sent or not understood, and other faults."},
	} {
		if *c.to, err = m.Int64Counter(c.name, metric.WithDescription(c.what)); err != nil {
			return nil, fmt.Errorf("make the bus's metrics: %w", err)
		}
	}
	return &i, nil
}

func (i *instruments) setConnected(connected bool) {
	v := int64(0)
	if connected {
		v = 1
	}
	i.connected.Record(context.Background(), v)
}

func (i *instruments) fault(subject Subject, kind string) {
	i.errors.Add(context.Background(), 1, metric.WithAttributes(
		attribute.String("subject", string(subject)), attribute.String("kind", kind)))
}

// meter is a counter bound to one subject, so that counting allocates nothing.
type meter struct {
	counter metric.Int64Counter
	set     []metric.AddOption
}

func bind(c metric.Int64Counter, subject Subject) meter {
	set := attribute.NewSet(attribute.String("subject", string(subject)))
	return meter{c, []metric.AddOption{metric.WithAttributeSet(set)}}
}

func (m meter) add(n uint64) {
	m.counter.Add(context.Background(), int64(n), m.set...)
}
