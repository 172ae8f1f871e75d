package app

import (
	"context"
	"errors"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"

	"github.com/pointsman/pointsman/internal/kit/scorer"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// meters counts what the scorer does.
type meters struct {
	calls, abstentions metric.Int64Counter
	matches            metric.Float64Histogram

	mu     sync.RWMutex
	labels map[labelKey][]metric.AddOption // made once: making them costs more than most calls
}

// labelKey is what a series is about: a result or a reason.
type labelKey struct {
	scorerType string
	code       codes.Code
	abstained  bool
	reason     scorerv1.AbstainReason
}

func newMeters(m metric.Meter) (*meters, error) {
	calls, err1 := m.Int64Counter("pointsman_prefix_indexer_calls_total",
		metric.WithDescription("Score calls, by scorer type and result: ok, abstained (on all candidates), or the error's code."))
	abstentions, err2 := m.Int64Counter("pointsman_prefix_indexer_abstentions_total",
		metric.WithDescription("Candidates abstained on, by scorer type and reason."))
	matches, err3 := m.Float64Histogram("pointsman_prefix_indexer_best_match_ratio",
		metric.WithDescription("Share of the prompt that the best candidate holds."),
		metric.WithExplicitBucketBoundaries(0, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1))
	return &meters{calls: calls, abstentions: abstentions, matches: matches, labels: make(map[labelKey][]metric.AddOption)}, errors.Join(err1, err2, err3)
}

// observe is scorer.Config.Observe.
func (m *meters) observe(o scorer.Observation) {
	key := labelKey{scorerType: o.Type, code: o.Code, abstained: o.Abstained}
	m.calls.Add(context.Background(), 1, m.labelsOf(key)...)
}

// abstained counts candidates that a type had no opinion on.
func (m *meters) abstained(scorerType string, reason scorerv1.AbstainReason, candidates int) {
	m.abstentions.Add(context.Background(), int64(candidates), m.labelsOf(labelKey{scorerType: scorerType, reason: reason})...)
}

// matched is prefix.Config.Matched.
func (m *meters) matched(ratio float64) { m.matches.Record(context.Background(), ratio) }

func (m *meters) labelsOf(key labelKey) []metric.AddOption {
	m.mu.RLock()
	labels, ok := m.labels[key]
	m.mu.RUnlock()
	if ok {
		return labels
	}
	name, value := "result", strings.ToLower(key.code.String())
	switch {
	case key.reason != scorerv1.AbstainReason_ABSTAIN_REASON_UNSPECIFIED:
		name, value = "reason", strings.ToLower(strings.TrimPrefix(key.reason.String(), "ABSTAIN_REASON_"))
	case key.abstained:
		value = "abstained"
	}
	set := attribute.NewSet(attribute.String("type", key.scorerType), attribute.String(name, value))
	labels = []metric.AddOption{metric.WithAttributeSet(set)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.labels[key] = labels
	return labels
}
