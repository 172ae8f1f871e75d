package app

import (
	"log/slog"
	"sync"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/filter"
	"github.com/pointsman/pointsman/services/router/internal/profile"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// What endpoints say of themselves that run SGLang, and that decode and do nothing else.
const (
	engineSGLang = "sglang"
	roleDecode   = "decode"
)

// engineNotes warns of configurations that the engines of the endpoints cannot serve. The
// configuration itself cannot tell: which engines there are is broadcast. Safe for
// concurrent use.
type engineNotes struct {
	log *slog.Logger

	mu   sync.Mutex
	told route.Handler // whom was warned of last
}

// look warns, once per configuration, if its handler would have an endpoint prefill that
// SGLang runs for decoding alone. Where the connector is configured, reading the
// configuration has warned already.
func (n *engineNotes) look(cfg *route.Config, t *roster.Table) {
	if cfg == nil {
		return
	}
	h, ok := cfg.Handler.(*profile.Disagg)
	if !ok {
		return
	}
	if c := h.Config(); c.Connector != "" || !c.PrefillsHere() {
		return
	}
	e := decodesBySGLang(t)
	if e == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told == cfg.Handler {
		return
	}
	n.told = cfg.Handler
	n.log.Warn("servers that SGLang runs for decoding alone cannot prefill, so that a request which nobody else prefills fails there",
		"handler", h.Name(), "endpoint", e.ID, "instead", profile.AlwaysType+" and onPrefillFailure: [RetryOther, Fail]")
}

// decodesBySGLang returns the first endpoint that runs SGLang and has the role to decode
// and no other; nil if there is none.
func decodesBySGLang(t *roster.Table) *roster.Endpoint {
	for i := range t.Endpoints {
		e := &t.Endpoints[i]
		if role, _ := e.Label(filter.RoleLabel); e.Engine == engineSGLang && role == roleDecode {
			return e
		}
	}
	return nil
}
