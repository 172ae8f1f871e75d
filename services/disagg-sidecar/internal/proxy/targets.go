package proxy

import (
	"math/rand/v2"
	"net"
	"net/http"
	"strings"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/services/disagg-sidecar/internal/allow"
)

// targets returns the endpoints that the header names, best first; none if it names none.
func (p *Proxy) targets(values []string) ([]disagg.Endpoint, *refusal) {
	if len(values) > 1 {
		return nil, &refusal{http.StatusBadRequest, BadTarget, "the header x-prefiller-host-port is there more than once"}
	}
	var named []string
	for _, v := range values {
		for t := range strings.SplitSeq(v, ",") {
			if t = strings.TrimSpace(t); t != "" {
				named = append(named, t)
			}
		}
	}
	if len(named) == 0 {
		return nil, nil
	}
	if p.cfg.Prefill.Sampling && len(named) > 1 {
		first := rand.IntN(len(named)) //nolint:gosec // a choice among equals
		named = append(named[first:len(named):len(named)], named[:first]...)
	}
	var out []disagg.Endpoint
	for _, n := range named {
		t, ok := allow.Parse(n)
		switch {
		case !ok:
			return nil, &refusal{http.StatusBadRequest, BadTarget, "the header x-prefiller-host-port names no host and port"}
		case p.cfg.Allow.Pool && !p.list.Allows(t):
			p.log.Warn("a request names whom nobody may call", "target", t.String())
			return nil, &refusal{http.StatusForbidden, Denied, "prefill target is not an endpoint of this pool"}
		}
		out = append(out, disagg.Endpoint{ID: t.String(), Scheme: p.cfg.Prefill.Scheme, Address: t.String()})
	}
	return out, nil
}

// encoders returns those whom the header names to encode, as far as they may be called.
func (p *Proxy) encoders(values []string) []disagg.Endpoint {
	var out []disagg.Endpoint
	for _, v := range values {
		for n := range strings.SplitSeq(v, ",") {
			t, ok := allow.Parse(strings.TrimSpace(n))
			switch {
			case !p.cfg.Encode.Enabled:
				p.metrics.encoded("unsupported")
				return nil
			case !ok || p.cfg.Allow.Pool && !p.list.Allows(t):
				p.metrics.encoded("target-denied")
			default:
				out = append(out, disagg.Endpoint{ID: t.String(), Scheme: p.cfg.Encode.Scheme, Address: t.String()})
			}
		}
	}
	return out
}

// plan says how a request is to be carried out. source is whom to pull from; "": nobody.
func (p *Proxy) plan(targets []disagg.Endpoint, source string) *disagg.Plan {
	c := p.cfg.Prefill
	out := &disagg.Plan{
		Connector: disagg.Connector(c.Connector), BootstrapPort: c.BootstrapPort, P2P: p.p2p(), Source: source, MoRIIO: p.pods.now.Load(),
		Policy: disagg.Policy{OnFailure: p.actions, Attempts: c.Retries + 1, Timeout: c.Timeout.D(), Budget: c.Budget.D(), Backoff: c.Backoff.D()},
	}
	for i := range c.Retries + 1 {
		out.Prefill = append(out.Prefill, targets[i%len(targets)])
	}
	return out
}

// joinPort returns the host with the port of an address.
func joinPort(host, address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return net.JoinHostPort(host, port)
}
