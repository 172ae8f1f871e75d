package scorersvc

import (
	"context"
	"errors"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

// metricName is the full name of one of a service's metrics: "calls_total" of
// scorer-kv is pointsman_scorer_kv_calls_total.
func metricName(service, noun string) string {
	return "pointsman_" + strings.ReplaceAll(service, "-", "_") + "_" + noun
}

// meters counts what the scorer does.
type meters struct {
	calls, abstentions metric.Int64Counter

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

func newMeters(service string, m metric.Meter) (*meters, error) {
	calls, err1 := m.Int64Counter(metricName(service, "calls_total"),
		metric.WithDescription("Score calls, by scorer type and result: ok, abstained (on all candidates), or the error's code."))
	abstentions, err2 := m.Int64Counter(metricName(service, "abstentions_total"),
		metric.WithDescription("Candidates abstained on, by scorer type and reason."))
	return &meters{calls: calls, abstentions: abstentions, labels: make(map[labelKey][]metric.AddOption)}, errors.Join(err1, err2)
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
