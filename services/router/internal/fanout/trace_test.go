package fanout

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// recorder is a tracer that keeps what it is told.
type recorder struct {
	noop.Tracer
	names    []string
	verdicts []string
	faults   int
}

type recordedSpan struct {
	noop.Span
	r  *recorder
	sc trace.SpanContext
}

func (r *recorder) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	r.names = append(r.names, name)
	parent := trace.SpanContextFromContext(ctx)
	return ctx, &recordedSpan{r: r, sc: parent.WithSpanID(trace.SpanID{byte(len(r.names))})}
}

func (s *recordedSpan) SpanContext() trace.SpanContext { return s.sc }
func (s *recordedSpan) SetStatus(c codes.Code, _ string) {
	if c == codes.Error {
		s.r.faults++
	}
}
func (s *recordedSpan) SetAttributes(kv ...attribute.KeyValue) {
	for _, a := range kv {
		s.r.verdicts = append(s.r.verdicts, a.Value.AsString())
	}
}

func TestSpans(t *testing.T) {
	sampled := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{9}, TraceFlags: trace.FlagsSampled})
	for name, tc := range map[string]struct {
		parent  trace.SpanContext
		spans   []string
		parents []string
	}{
		"sampled": {
			sampled, []string{"scorer.Score", "scorer.Score"},
			[]string{"00-01000000000000000000000000000000-0100000000000000-01", "00-01000000000000000000000000000000-0200000000000000-01"},
		},
		"not sampled": {sampled.WithTraceFlags(0), nil, []string{"", ""}},
		"not traced":  {trace.SpanContext{}, nil, []string{"", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{}
			f, err := New(Config{Timeout: time.Second}, r)
			if err != nil {
				t.Fatal(err)
			}
			c, all := newCycle(t, 2)
			var parents []string
			good := &fake{start: func(c *Call) { parents = append(parents, c.Traceparent()); scores(c, 1) }}
			bad := &fake{start: func(c *Call) { parents = append(parents, c.Traceparent()); c.Refuse(route.Failed, "broken") }}
			ask(trace.ContextWithSpanContext(t.Context(), tc.parent), f, c, all, good, bad)
			if diff := cmp.Diff(tc.spans, r.names); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.parents, parents); diff != "" {
				t.Error(diff)
			}
			if tc.spans != nil && (!cmp.Equal(r.verdicts, []string{"scored", "failed"}) || r.faults != 1) {
				t.Errorf("verdicts %v, %d faults", r.verdicts, r.faults)
			}
		})
	}
}
