package grpcapi

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

func TestConfigurationIsShownAndChecked(t *testing.T) {
	f := newFront(t)
	s, err := f.GetConfigStatus(t.Context(), &routerv1.GetConfigStatusRequest{})
	if err != nil || s.GetSource() != "epp.yaml" {
		t.Errorf("status %v, error %v", s, err)
	}
	for source, want := range map[string]string{"": "configuration: kind: is missing", "a.yaml": "a.yaml: kind: is missing"} {
		c, err := f.CheckConfig(t.Context(), &routerv1.CheckConfigRequest{Source: source, Text: "kind: is missing"})
		if err != nil || len(c.GetFaults()) != 1 || c.GetFaults()[0].GetMessage() != want {
			t.Errorf("check of %q: %v, error %v", source, c, err)
		}
	}
	for _, source := range []string{"two\nlines", strings.Repeat("x", maxSource+1)} {
		if _, err := f.CheckConfig(t.Context(), &routerv1.CheckConfigRequest{Source: source}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("source %.10q: %v", source, err)
		}
	}
}
