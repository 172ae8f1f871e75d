package grpcapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestAdmissionIsTold(t *testing.T) {
	full := 1.5
	for name, c := range map[string]struct {
		is   route.Admission
		want *routerv1.Admission
	}{
		"nobody was asked": {route.Admission{}, nil},
		"let in":           {route.Admission{Asked: true, Priority: 3}, &routerv1.Admission{Priority: 3}},
		"shed": {
			route.Admission{Asked: true, Shed: true, Priority: -1, Sheddable: true, Because: "so", Detector: "d", Saturation: full, Saturated: true},
			&routerv1.Admission{Shed: true, Priority: -1, Sheddable: true, SheddableBecause: "so", Detector: "d", Saturation: &full, Saturated: true},
		},
	} {
		if d := cmp.Diff(c.want, admission(&c.is), protocmp.Transform()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
