package discover

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/pointsman/pointsman/services/metrics-collector/internal/engine"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

// target makes the endpoint what the fleet knows it as.
func (e *EndpointConfig) target(d DefaultsConfig) *fleet.Target {
	host := strings.TrimSuffix(strings.TrimPrefix(e.Address, "["), "]")
	if a, err := netip.ParseAddr(host); err == nil {
		host = a.Unmap().String() // one spelling of one address
	}
	t := e.Traits.target(host, d)
	t.GivenID = e.ID
	return t
}

// Target makes an endpoint that was found elsewhere what the fleet knows it as. id must
// not be empty.
func (d DefaultsConfig) Target(id, host string, t Traits) *fleet.Target {
	out := t.target(host, d)
	out.GivenID = id
	return out
}

func (t *Traits) target(host string, d DefaultsConfig) *fleet.Target {
	out := &fleet.Target{
		Host: host, Port: uint16(t.Port), Scheme: cmp.Or(t.Scheme, "http"), //nolint:gosec // validated
		Models: slices.Compact(slices.Sorted(slices.Values(t.Models))), Interval: t.Interval.D(),
	}
	for _, name := range slices.Sorted(maps.Keys(t.Labels)) {
		out.Labels = append(out.Labels, fleet.Label{Name: name, Value: t.Labels[name]})
	}
	out.Engine = t.Engine
	if known, ok := engine.Parse(t.engineLabel()); ok && out.Engine == "" {
		out.Engine = string(known)
	}
	out.Metrics = t.Metrics.source(d.Metrics, out, pagePath(out.Engine))
	out.ModelList = t.ModelList.source(d.ModelList, out, "/v1/models")
	return out
}

// pagePath is where an engine has its page. What TensorRT-LLM's own server has at
// /metrics is not in a format of Prometheus.
func pagePath(name string) string {
	if name == string(engine.TRTLLMServe) {
		return "/prometheus/metrics"
	}
	return "/metrics"
}

// engineLabel is what the labels say of the engine.
func (t *Traits) engineLabel() string {
	return cmp.Or(t.Labels[engine.TypeLabel], t.Labels[engine.LegacyTypeLabel])
}

// source fills in what is not set from the defaults, the endpoint and the path.
func (s *SourceConfig) source(d SourceConfig, t *fleet.Target, path string) fleet.Source {
	out := fleet.Source{
		Scheme: cmp.Or(s.Scheme, d.Scheme, t.Scheme),
		Port:   cmp.Or(uint16(s.Port), uint16(d.Port), t.Port), //nolint:gosec // validated
		Path:   cmp.Or(s.Path, d.Path, path),
		TLS:    fleet.TLS(cmp.Or(s.TLS, d.TLS)),
		Token:  fleet.Secret(s.Token), TokenFile: s.TokenFile,
	}
	if out.Token == "" && out.TokenFile == "" {
		out.Token, out.TokenFile = fleet.Secret(d.Token), d.TokenFile
	}
	return out
}
