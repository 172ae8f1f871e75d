package fanout

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// span begins the span of one call. Only requests that are sampled come here.
func (f *Fan) span(ctx context.Context, s *route.Scorer) trace.Span {
	_, span := f.tracer.Start(ctx, "scorer.Score", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("rpc.system", "grpc"),
		attribute.String("rpc.service", "pointsman.scorer.v1.ScorerService"),
		attribute.String("pointsman.scorer", s.Service),
		attribute.String("pointsman.scorer_type", s.Type),
		attribute.String("pointsman.plugin", s.Plugin),
	))
	return span
}

func endSpan(span trace.Span, s *route.Scores) {
	span.SetAttributes(attribute.String("pointsman.verdict", s.Verdict.String()))
	if s.Verdict != route.Scored && s.Verdict != route.Abstained {
		span.SetStatus(codes.Error, s.Reason)
	}
	span.End()
}

// traceparent writes a span's context as the W3C recommendation "Trace Context" has
// it; empty for no span.
func traceparent(span trace.Span) string {
	if span == nil {
		return ""
	}
	sc := span.SpanContext()
	if !sc.IsValid() || !sc.IsSampled() {
		return ""
	}
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-01"
}
