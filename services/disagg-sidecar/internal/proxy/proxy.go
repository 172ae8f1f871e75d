package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/disagg/body"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/disagg-sidecar/internal/allow"
)

// Proxy takes requests in the place of a model server that decodes.
type Proxy struct {
	cfg     Config
	list    *allow.List
	log     *slog.Logger
	service string
	health  *telemetry.Health
	metrics *instruments
	runner  *disagg.Runner
	encoder *disagg.Runner  // calls those who encode
	actions []disagg.Action // when a prefill leg fails
	encodes []disagg.Action // when encoding does
	pods    *pods           // of engines that write
	ranks   []*rank
	held    atomic.Int64 // bytes of bodies

	decode, prefill, encode *http.Transport
}

// rank is one data-parallel rank of the model server.
type rank struct {
	proxy    *Proxy
	index    int
	endpoint disagg.Endpoint
	through  *httputil.ReverseProxy
}

// New returns a Proxy that calls those on the list. It starts nothing.
func New(cfg Config, list *allow.List, tel *telemetry.Telemetry) (*Proxy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Decode.PodIP = cfg.Decode.podIP()
	metrics, err := newInstruments(tel.Meter)
	if err != nil {
		return nil, err
	}
	p := &Proxy{cfg: cfg, list: list, log: tel.Log, service: tel.Service(), health: tel.Health, metrics: metrics}
	failed := func(err error) { p.log.Warn("the old certificate files stay in use", "error", err) }
	if p.decode, err = newTransport(cfg, "decode", cfg.Decode.TLS, failed); err != nil {
		return nil, err
	}
	if p.prefill, err = newTransport(cfg, "prefill", cfg.Prefill.TLS, failed); err != nil {
		return nil, err
	}
	if p.encode, err = newTransport(cfg, "encode", cfg.Encode.TLS, failed); err != nil {
		return nil, err
	}
	both := &transports{decode: p.decode, prefill: p.prefill, own: make(map[string]bool)}
	for i := range cfg.Decode.Ranks {
		address, err := ranked(cfg.Decode.Address, i)
		if err != nil {
			return nil, err
		}
		r := &rank{proxy: p, index: i, endpoint: disagg.Endpoint{ID: address, Scheme: cfg.Decode.Scheme, Address: address}}
		r.through = r.reverse()
		p.ranks = append(p.ranks, r)
		both.own[address] = true
	}
	p.pods = newPods(cfg.Prefill.MoRIIO.mode(cfg.Decode.PodIP), tel, metrics.looked)
	p.actions, _ = actions(cfg.Prefill.OnFailure, localPrefill) // Validate has seen to the names
	p.encodes, _ = actions(cfg.Encode.OnFailure, localEncode)
	runner := disagg.DefaultConfig()
	runner.DecodeTimeout = cfg.Decode.Timeout.D()
	stale := func() { metrics.stale.Add(context.Background(), 1) }
	if p.runner, err = disagg.NewRunner(&disagg.Steady{Transport: both, OnStale: stale}, runner); err != nil {
		return nil, err
	}
	p.encoder, err = disagg.NewRunner(&disagg.Steady{Transport: p.encode, OnStale: stale}, runner)
	return p, err
}

// ServeHTTP serves a request to the rank.
func (r *rank) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	p := r.proxy
	p.metrics.inFlight.Add(q.Context(), 1)
	rec := &recorder{ResponseWriter: w}
	var why Reason
	defer func() { p.metrics.ended(rec.status, why) }()
	if q.Method == http.MethodGet && q.URL.Path == "/health" {
		rec.WriteHeader(http.StatusOK)
		return
	}
	x := &exchange{rank: r, p: p, w: rec, r: q}
	f := x.serve()
	why = x.why
	if f != nil {
		why = f.reason
		if q.Context().Err() != nil && why != BodyTimeout { // net/http cancels it too when reading is late
			why = Cancelled
		}
		if rec.status == 0 && why != Cancelled {
			p.log.Debug("request refused", "status", f.status, "reason", string(f.reason), "message", f.message)
			f.write(rec)
			return
		}
		panic(http.ErrAbortHandler)
	}
}

// exchange is one request and its answer.
type exchange struct {
	rank *rank
	p    *Proxy
	w    *recorder
	r    *http.Request
	why  Reason
}

// serve does everything; what it returns is still to be answered.
func (x *exchange) serve() *refusal {
	h := x.r.Header
	prefillers, encoders, wanted, sources := h[headerPrefiller], h[headerEncoders], h[headerDataParallel], h[headerSource]
	strip(h)
	if x.r.Method != http.MethodPost || body.APIOf(x.r.URL.Path) == body.Other {
		return x.pass()
	}
	if f := x.chooseRank(wanted); f != nil {
		return f
	}
	targets, f := x.p.targets(prefillers)
	if f != nil {
		return f
	}
	encoding := x.p.encoders(encoders)
	source := x.source(sources, targets)
	if len(targets) > 0 && !x.p.pods.known() {
		return &refusal{http.StatusServiceUnavailable, PrefillFailed, "the names of MoRI-IO's pods have not been found yet"}
	}
	if len(targets) == 0 {
		x.p.metrics.alone(noHeader)
	}
	switch {
	case !uncompressed(h["Content-Encoding"]):
		if len(targets) > 0 {
			x.p.metrics.alone(compressed)
		}
		if x.divides() {
			x.p.metrics.whole(compressed)
		}
		return x.passCompressed()
	case len(targets)+len(encoding) == 0 && source == "" && !x.p.cfg.Allow.Pool && !x.divides():
		return x.pass()
	}
	return x.carry(targets, encoding, source)
}

func uncompressed(encodings []string) bool {
	for _, e := range encodings {
		if e != "" && !strings.EqualFold(e, "identity") {
			return false
		}
	}
	return true
}

// chooseRank goes to the rank that the header names.
func (x *exchange) chooseRank(named []string) *refusal {
	if len(named) == 0 {
		return nil
	}
	t, ok := allow.Parse(named[0])
	if ok && len(named) == 1 {
		for _, r := range x.p.ranks {
			host, address := x.p.cfg.Decode.PodIP, x.p.cfg.Listen.Address
			own, err := ranked(address, r.index)
			if err != nil {
				continue
			}
			if host == "" {
				host = t.Host()
			}
			if is, ok := allow.Parse(joinPort(host, own)); ok && is == t {
				x.rank = r
				return nil
			}
		}
	}
	return &refusal{http.StatusBadRequest, UnknownRank, "the request is for a data-parallel rank that is not here"}
}

// errIs is true for an error of a given kind behind others.
func errIs[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}
