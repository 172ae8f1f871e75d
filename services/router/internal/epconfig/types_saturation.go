package epconfig

import (
	"strings"

	"github.com/pointsman/pointsman/services/router/internal/admission"
)

// durationSchema is that of a length of time.
const durationSchema = `{"type": "string", "pattern": "^\\+?(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$"}`

// saturationTypes are the detectors that saturationDetector can name. Named in a
// profile, they are filters.
func saturationTypes() []*Type {
	u, k := admission.DefaultUtilizationConfig(), admission.DefaultConcurrencyConfig()
	return []*Type{
		{
			Name: admission.UtilizationType, Role: RoleFilter,
			Summary: "As saturationDetector: says how full the endpoints are that could serve a request, as the mean over them of max(waiting ÷ queueDepthThreshold, KV-cache usage ÷ kvCacheUtilThreshold); " +
				"from 1 on, requests that can be turned away are (429). As a filter: keeps the endpoints with waiting < queueDepthThreshold × (1 + headroom) and usage < kvCacheUtilThreshold × (1 + headroom), or everybody if there is none. " +
				"Where figures are unknown or stale, requests in flight ÷ 100 count instead; picks that the figures cannot include yet count as waiting where requests wait already, and as running elsewhere.",
			Parameters: utilizationParameters(),
			New: func(name string, p *Params) (any, error) {
				u := u
				u.Measure = admission.Mean
				return newUtilization(name, u, p), nil
			},
		},
		{
			Name: admission.ConcurrencyType, Role: RoleFilter,
			Summary: "As saturationDetector: says how full the endpoints are that could serve a request, as what is in flight there, of all routers, ÷ what may be; from 1 on, requests that can be turned away are (429). " +
				"As a filter: keeps the endpoints with less in flight than the limit × (1 + headroom); if there is none, the request is turned away (429).",
			Parameters: []Parameter{
				{Name: "maxConcurrency", Default: k.MaxRequests, Summary: "Requests in flight that an endpoint may have.", Schema: `{"minimum": 1}`},
				{Name: "maxTokenConcurrency", Default: k.MaxTokens, Summary: "Tokens in flight that an endpoint may have, in the mode tokens: prompt tokens that are not cached, times 2.5 for the answers.", Schema: `{"minimum": 1}`},
				{Name: "headroom", Default: k.Headroom, Summary: "Part by which the filter lets the limit be exceeded.", Schema: `{"minimum": 0}`},
				{Name: "concurrencyMode", Default: k.Count, Summary: "What is counted.", Schema: `{"enum": ["requests", "tokens"]}`},
			},
			New: func(name string, p *Params) (any, error) {
				d, err := admission.NewConcurrency(name, admission.ConcurrencyConfig{
					MaxRequests: p.Int("maxConcurrency"), MaxTokens: p.Int("maxTokenConcurrency"), Headroom: p.headroom(), Count: p.String("concurrencyMode"),
				})
				p.keyed(err)
				return d, nil
			},
		},
	}
}

func utilizationParameters() []Parameter {
	d := admission.DefaultUtilizationConfig()
	return []Parameter{
		{Name: "queueDepthThreshold", Default: d.QueueDepth, Summary: "Requests that may wait at an endpoint.", Schema: `{"minimum": 1}`},
		{Name: "kvCacheUtilThreshold", Default: d.KVCacheUtil, Summary: "Part of its KV cache that may be in use.", Schema: `{"exclusiveMinimum": 0, "maximum": 1}`},
		{Name: "metricsStalenessThreshold", Summary: "Age above which an endpoint's figures are not believed, such as 500ms. Default: that of the router, roster.stalenessLimit. Keep it above the time that a scrape takes.", Schema: durationSchema},
		{Name: "headroom", Default: d.Headroom, Summary: "Part by which the filter lets limits be exceeded.", Schema: `{"minimum": 0}`},
	}
}

func newUtilization(name string, cfg admission.UtilizationConfig, p *Params) *admission.Utilization {
	cfg.QueueDepth, cfg.KVCacheUtil = p.Int("queueDepthThreshold"), p.Float("kvCacheUtilThreshold")
	cfg.Staleness, cfg.Headroom = p.Duration("metricsStalenessThreshold"), p.headroom()
	d, err := admission.NewUtilization(name, cfg)
	if !p.Failed() {
		p.keyed(err)
	}
	return d
}

// keyed reports faults that begin with a parameter's name and a colon.
func (p *Params) keyed(err error) {
	for _, fault := range unwrapped(err) {
		key, words, ok := strings.Cut(fault.Error(), ": ")
		if !ok {
			key, words = "", fault.Error()
		}
		p.Fault(p.At(key), key, "%s", words)
	}
}
