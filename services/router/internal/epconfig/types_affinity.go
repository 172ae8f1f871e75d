package epconfig

import "github.com/pointsman/pointsman/services/router/internal/filter"

// PrefixScorerType is the scorer type that says who holds how much of a prompt.
const PrefixScorerType = "prefix-cache-scorer"

// affinityTypes are the filters that go by what scorers say.
func affinityTypes() []*Type {
	d := filter.DefaultAffinityConfig()
	return []*Type{{
		Name: filter.AffinityType, Role: RoleFilter,
		Summary: "Keeps the endpoints that hold a great part of the prompt in their cache: matched blocks ÷ blocks of the prompt ≥ affinityThreshold. Keeps everybody if none holds that much, " +
			"with the probability explorationProbability, and if the best of those who do would be slower than the best of all by more than maxTTFTPenaltyMs. There is no latency predictor here: " +
			"time to first token = (uncached prompt tokens in flight + those of this request) ÷ prefillTokensPerSecond. It runs after scoring, as do the filters that stand after it, since it goes by what " + PrefixScorerType +
			" says; a profile without one gets it with weight 0.",
		Parameters: []Parameter{
			{Name: "affinityThreshold", Default: d.Threshold, Summary: "Share of the prompt's blocks from which on an endpoint counts as having it.", Schema: `{"maximum": 1}`},
			{Name: "explorationProbability", Default: d.Exploration, Summary: "Probability of keeping everybody.", Schema: probability},
			{Name: "maxTTFTPenaltyMs", Default: d.MaxPenaltyMS, Summary: "Milliseconds by which the first token may be later; 0 for any.", Schema: `{"minimum": 0}`},
			{Name: "prefillTokensPerSecond", Default: d.TokensPerSecond, Summary: "Prompt tokens that an endpoint prefills per second; ours, for the estimate. Measure it for your model and GPU.", Schema: `{"exclusiveMinimum": 0}`},
		},
		New: func(name string, p *Params) (any, error) {
			f, err := filter.NewAffinity(name, filter.AffinityConfig{
				Threshold: p.Float("affinityThreshold"), Exploration: p.Float("explorationProbability"),
				MaxPenaltyMS: p.Float("maxTTFTPenaltyMs"), TokensPerSecond: p.Float("prefillTokensPerSecond"),
			})
			for _, fault := range unwrapped(err) {
				p.Fault(nil, "", "%v", fault)
			}
			return f, nil
		},
	}}
}
