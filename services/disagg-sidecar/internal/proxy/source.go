package proxy

import (
	"context"
	"net"
	"strconv"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/services/disagg-sidecar/internal/allow"
)

// What becomes of the header that names an endpoint with more of the prompt cached.
const (
	sourceUsed        = "used"            // an engine was told to pull from it
	sourceUnsupported = "unsupported"     // the engines cannot
	sourceMalformed   = "malformed"       // it names no host and port, or is there twice
	sourceDenied      = "target-denied"   // it names whom nobody may call
	sourceSelf        = "same-endpoint"   // it names who is to pull
	sourceSeveral     = "several-answers" // each of them would pull
	sourceUnreadable  = "body-unreadable" // it is compressed, or no JSON object
)

// source returns the endpoint that the header names to pull from; "": there is none, or it
// cannot be used, which is no reason to fail: the prompt is computed.
func (x *exchange) source(values []string, targets []disagg.Endpoint) string {
	if len(values) == 0 {
		return ""
	}
	source, why := x.usable(values, targets)
	if why != "" {
		x.p.metrics.source(why)
		return ""
	}
	return source
}

func (x *exchange) usable(values []string, targets []disagg.Endpoint) (source, why string) {
	c := x.p.cfg.Prefill
	if !disagg.Pulls(disagg.Connector(c.Connector), c.P2P.Pull) {
		return "", sourceUnsupported
	}
	t, ok := allow.Parse(values[0])
	switch {
	case !ok || len(values) > 1:
		return "", sourceMalformed
	case x.p.cfg.Allow.Pool && !x.p.list.Allows(t):
		x.p.log.Warn("a request names whom nobody may call as the source of a cache", "target", t.String())
		return "", sourceDenied
	case len(targets) == 0 && x.rank.is(t), len(targets) > 0 && targets[0].Address == t.String():
		return "", sourceSelf
	case !uncompressed(x.r.Header["Content-Encoding"]):
		return "", sourceUnreadable
	}
	return t.String(), ""
}

// is true if routers know the rank by the address.
func (r *rank) is(t allow.Target) bool {
	host := r.proxy.cfg.Decode.PodIP
	own, err := ranked(r.proxy.cfg.Listen.Address, r.index)
	if err != nil || host == "" {
		return false
	}
	self, ok := allow.Parse(joinPort(host, own))
	return ok && self == t
}

// p2p says where engines hand out what they have offloaded. The ranks of all pods are at the
// same ports as here.
func (p *Proxy) p2p() disagg.P2P {
	out := disagg.P2P{Port: p.cfg.Prefill.P2P.Port, Ranks: p.cfg.Decode.Ranks}
	if _, port, err := net.SplitHostPort(p.cfg.Listen.Address); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			out.Base = uint16(n)
		}
	}
	return out
}

// source counts what became of a header.
func (i *instruments) source(why string) {
	i.sources.Add(context.Background(), 1, label("reason", why))
}
