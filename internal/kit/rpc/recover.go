package rpc

import (
	"context"
	"log/slog"
	"runtime/debug"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/kit/run"
)

// recovery turns panics of handlers into errors of their calls.
type recovery struct {
	log    *slog.Logger
	panics metric.Int64Counter
}

func (r recovery) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	defer r.catch(ctx, info.FullMethod, &err)
	return handler(ctx, req)
}

func (r recovery) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer r.catch(ss.Context(), info.FullMethod, &err)
	return handler(srv, ss)
}

// catch is deferred.
func (r recovery) catch(ctx context.Context, method string, err *error) {
	v := recover()
	if v == nil {
		return
	}
	r.panics.Add(ctx, 1, metric.WithAttributes(attribute.String("method", method)))
	r.log.ErrorContext(ctx, "handler panicked", "method", method, "panic", run.PanicText(v), "stack", string(debug.Stack()))
	*err = status.Error(codes.Internal, "the handler of this call panicked; the server's log has the stack")
}
