package httpproxy

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
)

// Proxy is an http.Handler that passes requests on to endpoints.
type Proxy struct {
	cfg        Config
	decider    edge.Decider
	roster     edge.Roster
	quarantine edge.Quarantine
	policy     Policy // nil: none
	salt       *edge.Salter
	log        *slog.Logger
	service    string
	metrics    *instruments
	parser     *prompt.Parser
	transport  *http.Transport
	steady     *disagg.Steady // sends by it
	runner     *disagg.Runner
	suspects   suspects
	buffers    bufferPool
	open       atomic.Int64 // requests under way
	chunks     sync.Pool    // of *[]byte of chunkSize
	created    int64        // unix seconds, for the list of models
}

// New returns a Proxy. It starts nothing; serve it with Part or as a handler.
func New(d edge.Decider, r edge.Roster, q edge.Quarantine, tel *telemetry.Telemetry, cfg Config) (*Proxy, error) {
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
	p.transport, err = newTransport(cfg, &p.chunks, func(err error) {
		p.log.Warn("new certificate files cannot be used; the old ones stay in use", "listener", "http", "for", "endpoints", "error", err)
	})
	if err != nil {
		return nil, err
	}
	p.steady = &disagg.Steady{Transport: p.transport, OnStale: func() { metrics.retries.Add(context.Background(), 1, metrics.stale...) }}
	p.runner, err = disagg.NewRunner(p.steady, disagg.DefaultConfig())
	return p, err
}

// ServeHTTP passes one request on. Where an answer breaks off after its first byte it
// panics with http.ErrAbortHandler, so that the client sees it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{p: p, w: w, r: r, ctx: traced(r), out: http.NewResponseController(w), began: time.Now()}
	p.metrics.Begin()
	open := p.open.Add(1)
	defer p.open.Add(-1)
	defer x.end()
	if f := x.serve(open); f != nil {
		x.fail(f)
	}
	if x.status == 0 {
		panic(http.ErrAbortHandler) // the client has gone; an empty 200 would be a lie
	}
}
