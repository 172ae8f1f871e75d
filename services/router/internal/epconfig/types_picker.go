package epconfig

import "github.com/pointsman/pointsman/services/router/internal/pick"

const maxEndpoints = "maxNumOfEndpoints"

// Parameters of the global-least-request-picker, and values of tieBreak.
const (
	scoreSlack      = "scoreSlack"
	tieBreak        = "tieBreak"
	maxRequestCount = "maxRequestCount"
	byLot           = "random"
	byScore         = "score"
)

func pickerTypes() []*Type {
	parameters := []Parameter{
		{Name: maxEndpoints, Default: 1, Summary: "How many endpoints to name, best first, for gateways that retry on the next. Less than 1 is taken for 1."},
	}
	return []*Type{
		{
			Name: pick.MaxScoreType, Role: RolePicker, Parameters: parameters,
			Summary: "Picks the endpoint with the greatest weighted sum of scores. Among equals, the one with the fewest requests in flight, and among those, by chance.",
			New:     func(name string, p *Params) (any, error) { return pick.NewMaxScore(name, endpoints(p)), nil },
		},
		{
			Name: pick.RandomType, Role: RolePicker, Parameters: parameters,
			Summary: "Picks any endpoint by chance; scores are ignored.",
			New:     func(name string, p *Params) (any, error) { return pick.NewRandom(name, endpoints(p)), nil },
		},
		{
			Name: pick.WeightedRandomType, Role: RolePicker, Parameters: parameters,
			Summary: "Picks by chance, in proportion to the weighted sum of scores. A sum of 0 or less is picked only if there is no greater one.",
			New:     func(name string, p *Params) (any, error) { return pick.NewWeightedRandom(name, endpoints(p)), nil },
		},
		{
			Name: pick.GlobalLeastRequestType, Role: RolePicker,
			Summary: "Picks, among the endpoints with the greatest weighted sum of scores, the one with the fewest requests in flight over all routers, which count them in Redis (setting redis). Without Redis, and while it is away, by the requests in flight that this router has heard of.",
			Parameters: append(parameters[:1:1],
				Parameter{Name: scoreSlack, Default: 0.0, Summary: "How much less than the greatest weighted sum counts as equal to it. 0: only equals are. A great one, such as the sum of all weights, has requests in flight decide among all.", Schema: `{"minimum": 0}`},
				Parameter{Name: tieBreak, Default: byLot, Summary: "Who is picked of those with equally few requests: random, or score: the one with the greater weighted sum, and among equals chance decides.", Schema: `{"enum": ["random", "score"]}`},
				Parameter{Name: maxRequestCount, Default: 0, Summary: "The most requests in flight on one endpoint, over all routers. Endpoints that have as many are not picked; if all have, the request is answered with 429. 0: no limit.", Schema: `{"minimum": 0}`},
			),
			New: newGlobalLeastRequest,
		},
	}
}

// endpoints reads maxNumOfEndpoints. Less than 1 is 1, as in the reference.
func endpoints(p *Params) int {
	n := p.Int(maxEndpoints)
	if n < 1 {
		p.Warn(maxEndpoints, "%d is taken for 1", n)
		p.note(maxEndpoints, "1")
		return 1
	}
	return n
}

func newGlobalLeastRequest(name string, p *Params) (any, error) {
	cfg := pick.GlobalLeastRequestConfig{Max: endpoints(p), ScoreSlack: p.Float(scoreSlack)}
	if cfg.ScoreSlack < 0 {
		p.Fault(p.At(scoreSlack), scoreSlack, "must not be below 0, not %v", cfg.ScoreSlack)
	}
	switch got := p.String(tieBreak); got {
	case byLot:
	case byScore:
		cfg.ByScore = true
	default:
		p.Fault(p.At(tieBreak), tieBreak, "must be %s or %s, not %q", byLot, byScore, got)
	}
	limit := p.Int(maxRequestCount)
	if limit < 0 {
		p.Fault(p.At(maxRequestCount), maxRequestCount, "must not be below 0, not %d; 0 is no limit", limit)
	}
	cfg.Limit = int64(limit)
	return pick.NewGlobalLeastRequest(name, cfg), nil
}
