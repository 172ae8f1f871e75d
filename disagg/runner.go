package disagg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/pointsman/pointsman/disagg/body"
)

// Config says how patient a Runner is, whatever the plan.
type Config struct {
	// MaxPrefillBytes limits the answer of a prefill leg, and of a round of decoding, which are
	// held whole, and the text of all rounds. Default
	// 8 MiB: the parameters of a transfer are some 10 bytes for each block of the prompt.
	MaxPrefillBytes int64
	// DecodeTimeout is how long the head of the decode leg's answer may take. 0: for ever;
	// the caller's context is what limits it. Default 0.
	DecodeTimeout time.Duration
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{MaxPrefillBytes: 8 << 20} }

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	var faults []error
	if c.MaxPrefillBytes < 1 {
		faults = append(faults, fmt.Errorf("maxPrefillBytes: %d is not above 0", c.MaxPrefillBytes))
	}
	if c.DecodeTimeout < 0 {
		faults = append(faults, fmt.Errorf("decodeTimeout: %v is below 0", c.DecodeTimeout))
	}
	return errors.Join(faults...)
}

// Runner carries out requests. Safe for concurrent use.
type Runner struct {
	cfg       Config
	transport http.RoundTripper
	room      func() int64
	engines   *directory // of Mooncake
}

// NewRunner returns a Runner that sends its legs through the transport, which must not
// decompress answers or follow redirects.
func NewRunner(transport http.RoundTripper, cfg Config) (*Runner, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Runner{cfg: cfg, transport: transport, room: rand.Int64, engines: newDirectory(transport)}, nil
}

// Errors of requests that are not served by two engines.
var (
	// ErrNotDivisible says that a request is of an API that is not.
	ErrNotDivisible = errors.New("requests to this path are not served by two engines")
	// ErrSeveral says that a request asks for several answers, or has several prompts,
	// which can be handed over neither by NIXL nor by any other way that vLLM has.
	ErrSeveral = errors.New("what is prefilled for a request of several answers or prompts cannot be handed over")
)

// Run is one request that is being carried out. It is used by one goroutine.
type Run struct {
	r    *Runner
	plan *Plan
	req  *Request
	w    Watcher
	api  body.API
	o    *body.Outline

	report    Report
	began     time.Time // of the first prefill leg
	failed    int       // prefill legs
	sent      int       // prefill legs
	id        string    // of the legs now
	at        int       // index of the endpoint to try next
	local     bool      // the engine that decodes prefills too
	prefilled bool      // the storage has the prompt
	transfer  []byte    // what is to be handed over; nil: nothing, or it was
	cached    int64     // of the prefill leg; negative: not reported

	decodeRank string        // the data-parallel rank of the decode leg; empty: any
	within     time.Duration // for which the answer waits for the prefill leg beside; 0: it does not
}

// Begin makes a Run of a plan. It sends nothing. The error is ErrNotDivisible, ErrSeveral, or what
// is wrong with the body: body.ErrNotObject, body.ErrTooMany, a *jsonscan.SyntaxError or
// jsonscan.ErrTooDeep; nothing has happened then, and the request can be sent to one
// engine as it is.
func (r *Runner) Begin(plan *Plan, req *Request, w Watcher) (*Run, error) {
	if err := plan.check(); err != nil {
		return nil, err
	}
	api := body.APIOf(req.URL.Path)
	if api == body.Other {
		return nil, ErrNotDivisible
	}
	o, err := body.Read(req.Body)
	if err != nil {
		return nil, err
	}
	if plan.Connector.single() && o.Several(api) {
		return nil, ErrSeveral
	}
	if w == nil {
		w = Unwatched{}
	}
	return &Run{r: r, plan: plan, req: req, w: w, api: api, o: o.Encoded(req.Encoded), id: req.ID, cached: -1, report: Report{Reason: OK}}, nil
}

// Do carries out a request whose answer is decoded by the endpoint. The report is
// complete when the answer's body has been closed; see Run.Report for the last word.
func (r *Runner) Do(ctx context.Context, plan *Plan, req *Request, decode Endpoint, w Watcher) (*http.Response, *Run, error) {
	x, err := r.Begin(plan, req, w)
	if err != nil {
		return nil, nil, err
	}
	resp, err := x.Send(ctx, decode)
	return resp, x, err
}

// Send runs the legs, with the decode leg at the endpoint, and returns the answer, of
// which the caller must close the body. It is a prefill leg's where that was refused, or
// failed and the policy says so: see Report.
//
// The error is a *PrefillError if the prefill leg is why there is no answer, the
// context's if the caller left, else the decode leg's. After the latter, or when reading
// the answer fails before its first byte, Send may be called again with another
// endpoint: a prefill leg is run again if what it handed over may have been used.
func (x *Run) Send(ctx context.Context, decode Endpoint) (*http.Response, error) {
	if x.local {
		return x.decodeAlone(ctx, decode)
	}
	switch x.plan.Connector {
	case SGLang, Mooncake:
		return x.together(ctx, decode)
	case SharedStorage:
		return x.stored(ctx, decode)
	default:
		if m := x.plan.MoRIIO; m != nil && m.Parallel {
			return x.together(ctx, decode)
		}
		return x.handed(ctx, decode)
	}
}

// Reusable is true if another Send would go on from where the last one came to: no
// prefill leg has to be run again.
func (x *Run) Reusable() bool {
	return x.local || x.transfer != nil || x.plan.Connector == SharedStorage && x.prefilled
}

// Report returns what has happened so far. Of a prefill leg that runs beside the decode
// leg it tells when the answer's body is closed.
func (x *Run) Report() Report { return x.report }
