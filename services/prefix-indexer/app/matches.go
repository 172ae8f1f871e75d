package app

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// matches measures how much of the prompts the endpoints hold.
type matches struct{ ratio metric.Float64Histogram }

func newMatches(m metric.Meter) (matches, error) {
	h, err := m.Float64Histogram("pointsman_prefix_indexer_best_match_ratio",
		metric.WithDescription("Share of the prompt that the best candidate holds."),
		metric.WithExplicitBucketBoundaries(0, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1))
	return matches{h}, err
}

// observe is prefix.Config.Matched.
func (m matches) observe(ratio float64) { m.ratio.Record(context.Background(), ratio) }
