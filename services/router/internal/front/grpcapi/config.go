package grpcapi

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"

	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

// maxSource is how long the name of a text may be, in bytes.
const maxSource = 4096

// GetConfigStatus shows the routing configuration in use.
func (s *Server) GetConfigStatus(context.Context, *routerv1.GetConfigStatusRequest) (*routerv1.GetConfigStatusResponse, error) {
	return s.deps.ConfigStatus(), nil
}

// CheckConfig loads a configuration without using it. That it has faults is an answer
// and not an error.
func (s *Server) CheckConfig(_ context.Context, in *routerv1.CheckConfigRequest) (*routerv1.CheckConfigResponse, error) {
	source := in.GetSource()
	if len(source) > maxSource || strings.ContainsAny(source, "\r\n") {
		return nil, fail(codes.InvalidArgument, "INVALID_REQUEST", "source: want one line of at most 4096 bytes")
	}
	if source == "" {
		source = "configuration"
	}
	return s.deps.CheckConfig(source, []byte(in.GetText())), nil
}
