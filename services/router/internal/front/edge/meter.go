package edge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// class is what the client has seen, as a label.
type class uint8

const (
	class2xx class = iota
	class3xx
	class4xx
	class5xx
	classNone // no answer was begun, or none was seen
	classes
)

var classNames = [classes]string{"2xx", "3xx", "4xx", "5xx", "none"}

func classOf(status int) class {
	switch {
	case status == 0:
		return classNone
	case status < 300:
		return class2xx
	case status < 400:
		return class3xx
	case status < 500:
		return class4xx
	default:
		return class5xx
	}
}

// Meter counts the exchanges of one front. Counting allocates nothing.
type Meter struct {
	requests metric.Int64Counter
	seconds  metric.Float64Histogram
	inFlight metric.Int64UpDownCounter
	received metric.Int64Counter
	sent     metric.Int64Counter
	unread   metric.Int64Counter

	// Label sets, made beforehand.
	ends   [classes][Reasons][]metric.AddOption
	ranges [classes][]metric.RecordOption
}

// NewMeter returns the metrics pointsman_router_<front>_…, of which the description says
// what an exchange of that front is.
func NewMeter(m metric.Meter, front, exchange string) (*Meter, error) {
	i := new(Meter)
	name := func(s string) string { return "pointsman_router_" + front + "_" + s }
	var errs [6]error
	i.requests, errs[0] = m.Int64Counter(name("requests_total"),
		metric.WithDescription("Requests that ended, by class of the status that the client has seen and by reason."))
	i.seconds, errs[1] = m.Float64Histogram(name("request_seconds"), metric.WithDescription(exchange), Seconds(1200))
	i.inFlight, errs[2] = m.Int64UpDownCounter(name("requests_in_flight"), metric.WithDescription("Requests that have not ended."))
	i.received, errs[3] = m.Int64Counter(name("request_bytes_total"), metric.WithDescription("Bytes of request bodies received."))
	i.sent, errs[4] = m.Int64Counter(name("response_bytes_total"), metric.WithDescription("Bytes of answers' bodies passed on."))
	i.unread, errs[5] = m.Int64Counter(name("unread_encodings_total"),
		metric.WithDescription("Requests routed by load because their content encoding is not read here."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make the metrics of the front %s: %w", front, err)
	}
	for c := range classes {
		code := attribute.String("code", classNames[c])
		i.ranges[c] = []metric.RecordOption{Label(code)}
		for r := range Reasons {
			i.ends[c][r] = []metric.AddOption{Label(code, attribute.String("reason", r.String()))}
		}
	}
	return i, nil
}

// Label makes a set of labels, to be used many times.
func Label(pairs ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(pairs...))
}

// Seconds are the buckets of a histogram of times, up to the given number of seconds.
func Seconds(upTo float64) metric.HistogramOption {
	all := []float64{.0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200}
	n := 0
	for n < len(all) && all[n] <= upTo {
		n++
	}
	return metric.WithExplicitBucketBoundaries(all[:n]...)
}

// Begin counts the beginning of an exchange.
func (i *Meter) Begin() { i.inFlight.Add(context.Background(), 1) }

// End counts the end of one: the status that the client has seen (0: none), why it ended,
// how long it took, and the bytes of the two bodies.
func (i *Meter) End(status int, why Reason, took time.Duration, received, sent int64) {
	ctx, c := context.Background(), classOf(status)
	i.inFlight.Add(ctx, -1)
	i.requests.Add(ctx, 1, i.ends[c][why]...)
	i.seconds.Record(ctx, took.Seconds(), i.ranges[c]...)
	i.received.Add(ctx, received)
	i.sent.Add(ctx, sent)
}

// Unread counts a request whose content encoding is not read.
func (i *Meter) Unread() { i.unread.Add(context.Background(), 1) }
