package httpproxy

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Decider picks endpoints.
type Decider interface {
	// Decide picks an endpoint and reserves it. The decision's Err says why there
	// is none.
	Decide(ctx context.Context, r *route.Request) *route.Decision
}

// Roster knows the endpoints.
type Roster interface {
	// Snapshot returns the present view.
	Snapshot() *roster.Snapshot
}

// Quarantine hears how endpoints do.
type Quarantine interface {
	// Failed says that an endpoint failed before the first byte, and why.
	Failed(id roster.ID, reason string)
	// Succeeded says that it answered.
	Succeeded(id roster.ID)
}

// Proxy is an http.Handler that passes requests on to endpoints.
type Proxy struct {
	cfg        Config
	decider    Decider
	roster     Roster
	quarantine Quarantine
	policy     Policy // nil: none
	log        *slog.Logger
	service    string
	metrics    *instruments
	parser     *prompt.Parser
	transport  *http.Transport
	buffers    bufferPool
	chunks     sync.Pool // of *[]byte of chunkSize
	created    int64     // unix seconds, for the list of models
}

// New returns a Proxy. It starts nothing; serve it with Part or as a handler.
func New(d Decider, r Roster, q Quarantine, tel *telemetry.Telemetry, cfg Config) (*Proxy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	parser, err := prompt.NewParser(cfg.Prompt)
	if err != nil {
		return nil, err
	}
	metrics, err := newInstruments(tel.Meter)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		cfg: cfg, decider: d, roster: r, quarantine: q, log: tel.Log, service: tel.Service(),
		metrics: metrics, parser: parser, buffers: bufferPool{most: cfg.MaxBufferedBytes},
		chunks:  sync.Pool{New: func() any { b := make([]byte, chunkSize); return &b }},
		created: time.Now().Unix(),
	}
	p.transport, err = newTransport(cfg, &p.chunks)
	return p, err
}

// ServeHTTP passes one request on. Where an answer breaks off after its first byte it
// panics with http.ErrAbortHandler, so that the client sees it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{p: p, w: w, r: r, ctx: traced(r), out: http.NewResponseController(w), began: time.Now()}
	p.metrics.begin()
	defer x.end()
	if f := x.serve(); f != nil {
		x.fail(f)
	}
	if x.status == 0 {
		panic(http.ErrAbortHandler) // the client has gone; an empty 200 would be a lie
	}
}
