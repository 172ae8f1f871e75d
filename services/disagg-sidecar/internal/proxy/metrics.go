package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/disagg"
)

// Why a request was decoded without being prefilled elsewhere, besides what package
// disagg says of a prefill leg that failed.
const (
	noHeader   = "no-header"       // nobody was named
	compressed = "body-compressed" // its body cannot be read
	several    = "several-answers" // it has several answers or prompts, which cannot be handed over
)

// instruments are the proxy's metrics.
type instruments struct {
	requests, decodeOnly, legs, encodes, stale metric.Int64Counter
	sources, rounds, wholes, lookups           metric.Int64Counter
	inFlight                                   metric.Int64UpDownCounter
	prefill                                    metric.Float64Histogram
}

func newInstruments(m metric.Meter) (*instruments, error) {
	i := new(instruments)
	const name = "pointsman_disagg_sidecar_"
	var errs [11]error
	i.requests, errs[0] = m.Int64Counter(name+"requests_total", metric.WithDescription("Requests that ended, by class of the status and by whether the sidecar answered by itself, and why: none if it did not."))
	i.inFlight, errs[1] = m.Int64UpDownCounter(name+"requests_in_flight", metric.WithDescription("Requests that have not ended."))
	i.decodeOnly, errs[2] = m.Int64Counter(name+"decode_only_total", metric.WithDescription("Requests to generate that the model server beside prefilled, by reason."))
	i.legs, errs[3] = m.Int64Counter(name+"prefill_legs_total", metric.WithDescription("Prefill legs, by how they ended."))
	i.prefill, errs[4] = m.Float64Histogram(name+"prefill_seconds", metric.WithDescription("From sending a prefill leg to the end of its answer, of those that did what they were for."),
		metric.WithExplicitBucketBoundaries(.0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600))
	i.encodes, errs[6] = m.Int64Counter(name+"encode_calls_total", metric.WithDescription("Calls by which media were encoded elsewhere, by how they ended; and encoders that were named and not called: target-denied, unsupported."))
	i.stale, errs[5] = m.Int64Counter(name+"stale_connections_total", metric.WithDescription("Legs sent again because the engine had closed the connection."))
	i.sources, errs[7] = m.Int64Counter(name+"cache_sources_total", metric.WithDescription("Headers that name an endpoint with more of the prompt cached, by what became of them: used, or why not."))
	i.rounds, errs[8] = m.Int64Counter(name+"decode_rounds_total", metric.WithDescription("Rounds of decoding, by how they ended."))
	i.wholes, errs[9] = m.Int64Counter(name+"unchunked_total", metric.WithDescription("Requests that were decoded at once with decode.chunkSize, by reason."))
	i.lookups, errs[10] = m.Int64Counter(name+"lookups_total", metric.WithDescription("Look-ups of the names of MoRI-IO's pods, by whether all were found."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make the proxy's metrics: %w", err)
	}
	return i, nil
}

func label(name, value string) metric.AddOption {
	return metric.WithAttributes(attribute.String(name, value))
}

// ended counts a request.
func (i *instruments) ended(status int, why Reason) {
	class := "none"
	if status >= 100 {
		class = fmt.Sprintf("%dxx", status/100)
	}
	if why == "" {
		why = "none"
	}
	ctx := context.Background()
	i.inFlight.Add(ctx, -1)
	i.requests.Add(ctx, 1, label("code", class), label("reason", string(why)))
}

// alone counts a request that the model server beside prefilled.
func (i *instruments) alone(why string) {
	i.decodeOnly.Add(context.Background(), 1, label("reason", why))
}

// encoded counts a call, or one that was not made.
func (i *instruments) encoded(why string) {
	i.encodes.Add(context.Background(), 1, label("reason", why))
}

// looked counts a look-up of all names.
func (i *instruments) looked(why string) {
	i.lookups.Add(context.Background(), 1, label("reason", why))
}

// PrefillBegins does nothing; it makes instruments a disagg.Watcher.
func (i *instruments) PrefillBegins(disagg.Endpoint) {}

// PrefillEnds counts a prefill leg.
func (i *instruments) PrefillEnds(a disagg.Attempt) {
	i.legs.Add(context.Background(), 1, label("reason", string(a.Reason)))
	if a.Reason == disagg.OK {
		i.prefill.Record(context.Background(), a.Took.Seconds())
	}
}

// PrefillsHere counts a request that nobody else has prefilled.
func (i *instruments) PrefillsHere(why disagg.Reason) { i.alone(string(why)) }

// recorder sees the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
	own    bool // the answer is the sidecar's
}

// WriteHeader notes the status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write notes that there is an answer.
func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
