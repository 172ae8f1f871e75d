package pins

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Results of look-ups and of writing.
const (
	hit   = "hit"
	miss  = "miss"
	local = "local"

	written = "ok"
	failed  = "failed"
	dropped = "dropped"
)

var noContext = context.Background()

type meters struct {
	lookups, learned metric.Int64Counter
	writing          metric.Int64Gauge
	results          map[string]metric.AddOption
}

func newMeters(m metric.Meter) (*meters, error) {
	i := &meters{results: make(map[string]metric.AddOption)}
	for _, r := range []string{hit, miss, local, written, failed, dropped} {
		i.results[r] = metric.WithAttributeSet(attribute.NewSet(attribute.String("result", r)))
	}
	var err error
	if i.lookups, err = m.Int64Counter("pointsman_prefix_indexer_key_lookups_total",
		metric.WithDescription("Look-ups of prefixes in Redis by result: hit, miss, local (the index was gone by instead).")); err != nil {
		return nil, err
	}
	if i.learned, err = m.Int64Counter("pointsman_prefix_indexer_keys_learned_total",
		metric.WithDescription("Served prompts to be remembered in Redis by result: ok, failed, dropped (too many waited). Only the writer counts.")); err != nil {
		return nil, err
	}
	i.writing, err = m.Int64Gauge("pointsman_prefix_indexer_key_writer",
		metric.WithDescription("1 for the prefix-indexer of the pool that writes to Redis."))
	return i, err
}

func (m *meters) looked(result string) { m.lookups.Add(noContext, 1, m.results[result]) }

func (m *meters) wrote(result string, n int) { m.learned.Add(noContext, int64(n), m.results[result]) }

func (m *meters) writer(is bool) {
	n := int64(0)
	if is {
		n = 1
	}
	m.writing.Record(noContext, n)
}
