package extproc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
)

// class is what the client has seen, as a label.
type class uint8

const (
	class2xx class = iota
	class3xx
	class4xx
	class5xx
	classNone // no answer was seen
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

// modeCount is the modes with those of the future, which are one.
const modeCount = 7

// instruments are the front's metrics.
type instruments struct {
	requests  metric.Int64Counter
	seconds   metric.Float64Histogram
	streams   metric.Int64Counter
	decisions metric.Int64Counter
	moves     metric.Int64Counter
	inFlight  metric.Int64UpDownCounter
	received  metric.Int64Counter
	sent      metric.Int64Counter

	// Label sets made beforehand, so that counting allocates nothing.
	ends    [classCount][reasonCount][]metric.AddOption
	classes [classCount][]metric.RecordOption
	modes   [modeCount][]metric.AddOption
	bases   [bases][]metric.AddOption
}

func newInstruments(m metric.Meter) (*instruments, error) {
	i := new(instruments)
	var errs [8]error
	i.requests, errs[0] = m.Int64Counter("pointsman_router_extproc_requests_total",
		metric.WithDescription("Requests that ended, by class of the status that the client has seen and by reason."))
	i.seconds, errs[1] = m.Float64Histogram("pointsman_router_extproc_request_seconds",
		metric.WithDescription("From the beginning of a stream to its end."),
		metric.WithExplicitBucketBoundaries(.0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200))
	i.streams, errs[2] = m.Int64Counter("pointsman_router_extproc_streams_total",
		metric.WithDescription("Streams, by the mode in which the proxy sends request bodies."))
	i.decisions, errs[3] = m.Int64Counter("pointsman_router_extproc_decisions_total",
		metric.WithDescription("Picks, by what they were made on: the whole request (body), its headers, the beginning of its body (part), "+
			"its headers because the body was late (hurry), no scorers because they were late (cheap)."))
	i.moves, errs[4] = m.Int64Counter("pointsman_router_extproc_moves_total",
		metric.WithDescription("Requests that another endpoint has served than the one that was picked."))
	i.inFlight, errs[5] = m.Int64UpDownCounter("pointsman_router_extproc_requests_in_flight",
		metric.WithDescription("Streams that have not ended."))
	i.received, errs[6] = m.Int64Counter("pointsman_router_extproc_request_bytes_total",
		metric.WithDescription("Bytes of request bodies received."))
	i.sent, errs[7] = m.Int64Counter("pointsman_router_extproc_response_bytes_total",
		metric.WithDescription("Bytes of answers' bodies seen."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make the ext_proc front's metrics: %w", err)
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
	for m := range i.modes {
		i.modes[m] = []metric.AddOption{label(attribute.String("mode", wire.Mode(m).String()))} //nolint:gosec // few
	}
	for b, name := range basisNames {
		i.bases[b] = []metric.AddOption{label(attribute.String("basis", name))}
	}
	return i, nil
}

func (i *instruments) begin() { i.inFlight.Add(context.Background(), 1) }

func (i *instruments) mode(m wire.Mode) {
	i.streams.Add(context.Background(), 1, i.modes[min(m, modeCount-1)]...)
}

func (i *instruments) decided(b basis) { i.decisions.Add(context.Background(), 1, i.bases[b]...) }

func (i *instruments) moved() { i.moves.Add(context.Background(), 1) }

func (i *instruments) end(status int, why reason, took time.Duration, received, sent int64) {
	ctx, c := context.Background(), classOf(status)
	i.inFlight.Add(ctx, -1)
	i.requests.Add(ctx, 1, i.ends[c][why]...)
	i.seconds.Record(ctx, took.Seconds(), i.classes[c]...)
	i.received.Add(ctx, received)
	i.sent.Add(ctx, sent)
}
