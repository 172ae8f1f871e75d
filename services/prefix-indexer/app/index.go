package app

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

// showIndex registers metrics of how the index stands.
func showIndex(m metric.Meter, x *index.Index) error {
	var errs [6]error
	gauge := func(i int, name, text string) metric.Int64ObservableGauge {
		g, err := m.Int64ObservableGauge("pointsman_prefix_indexer_"+name, metric.WithDescription(text))
		errs[i] = err
		return g
	}
	counter := func(i int, name, text string) metric.Int64ObservableCounter {
		c, err := m.Int64ObservableCounter("pointsman_prefix_indexer_"+name, metric.WithDescription(text))
		errs[i] = err
		return c
	}
	entries := gauge(0, "index_entries", "(Block, endpoint) pairs in the index.")
	blocks := gauge(1, "index_blocks", "Different blocks in the index.")
	bytes := gauge(2, "index_bytes", "Memory that the entries need; bounded by index.maxBytes.")
	placements := counter(3, "placements_total", "Prompts learned.")
	refused := counter(4, "refused_placements_total", "Prompts not learned, or only their beginning, by reason.")
	evicted := counter(5, "evicted_entries_total", "Entries let go, by reason: capacity of the endpoint, memory, gone (endpoint or block size), contradicted (by what the engine reports).")
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	reason := func(name string) metric.ObserveOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", name)))
	}
	_, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := x.Stats()
		o.ObserveInt64(entries, s.Entries)
		o.ObserveInt64(blocks, s.Blocks)
		o.ObserveInt64(bytes, s.Bytes)
		o.ObserveInt64(placements, int64(s.Placements))
		o.ObserveInt64(refused, int64(s.Refused.UnknownEndpoint), reason("unknown_endpoint"))
		o.ObserveInt64(refused, int64(s.Refused.Key), reason("key"))
		o.ObserveInt64(refused, int64(s.Refused.Chain), reason("chain"))
		o.ObserveInt64(evicted, int64(s.Evicted.Capacity), reason("capacity"))
		o.ObserveInt64(evicted, int64(s.Evicted.Memory), reason("memory"))
		o.ObserveInt64(evicted, int64(s.Evicted.Gone), reason("gone"))
		o.ObserveInt64(evicted, int64(s.Evicted.Contradicted), reason("contradicted"))
		return nil
	}, entries, blocks, bytes, placements, refused, evicted)
	return err
}
