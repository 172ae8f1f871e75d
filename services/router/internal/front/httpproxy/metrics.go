package httpproxy

import (
	"context"
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
	classNone // no answer was begun
	classCount
)

var classNames = [classCount]string{"2xx", "3xx", "4xx", "5xx", "none"}

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

// instruments are the proxy's metrics.
type instruments struct {
	requests  metric.Int64Counter
	seconds   metric.Float64Histogram
	firstByte metric.Float64Histogram
	retries   metric.Int64Counter
	inFlight  metric.Int64UpDownCounter
	received  metric.Int64Counter
	sent      metric.Int64Counter

	// Label sets made beforehand, so that counting allocates nothing.
	ends    [classCount][reasonCount][]metric.AddOption
	classes [classCount][]metric.RecordOption
	why     [reasonCount][]metric.AddOption
	stale   []metric.AddOption
}

func seconds(upTo float64) metric.HistogramOption {
	all := []float64{.0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200}
	n := 0
	for n < len(all) && all[n] <= upTo {
		n++
	}
	return metric.WithExplicitBucketBoundaries(all[:n]...)
}

func newInstruments(m metric.Meter) (*instruments, error) {
	i := new(instruments)
	var errs [7]error
	i.requests, errs[0] = m.Int64Counter("pointsman_router_http_requests_total",
		metric.WithDescription("Requests that ended, by class of the status that the client has seen and by reason."))
	i.seconds, errs[1] = m.Float64Histogram("pointsman_router_http_request_seconds",
		metric.WithDescription("From the head of a request to the end of its answer."), seconds(1200))
	i.firstByte, errs[2] = m.Float64Histogram("pointsman_router_http_first_byte_seconds",
		metric.WithDescription("From sending a request to an endpoint to the first byte of the answer's body, of the attempt that answered."), seconds(600))
	i.retries, errs[3] = m.Int64Counter("pointsman_router_http_retries_total",
		metric.WithDescription("Requests sent again before any byte of an answer, by what had failed."))
	i.inFlight, errs[4] = m.Int64UpDownCounter("pointsman_router_http_requests_in_flight",
		metric.WithDescription("Requests that have not ended."))
	i.received, errs[5] = m.Int64Counter("pointsman_router_http_request_bytes_total",
		metric.WithDescription("Bytes of request bodies received."))
	i.sent, errs[6] = m.Int64Counter("pointsman_router_http_response_bytes_total",
		metric.WithDescription("Bytes of response bodies sent."))
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("make the HTTP front's metrics: %w", err)
		}
	}
	label := func(pairs ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(pairs...))
	}
	for c := range classCount {
		code := attribute.String("code", classNames[c])
		i.classes[c] = []metric.RecordOption{label(code)}
		for r := range reasonCount {
			i.ends[c][r] = []metric.AddOption{label(code, attribute.String("reason", r.String()))}
		}
	}
	for r := range reasonCount {
		i.why[r] = []metric.AddOption{label(attribute.String("reason", r.String()))}
	}
	i.stale = []metric.AddOption{label(attribute.String("reason", "stale-connection"))}
	return i, nil
}

func (i *instruments) begin() { i.inFlight.Add(context.Background(), 1) }

func (i *instruments) end(status int, why reason, took time.Duration, received, sent int64) {
	ctx, c := context.Background(), classOf(status)
	i.inFlight.Add(ctx, -1)
	i.requests.Add(ctx, 1, i.ends[c][why]...)
	i.seconds.Record(ctx, took.Seconds(), i.classes[c]...)
	i.received.Add(ctx, received)
	i.sent.Add(ctx, sent)
}
