package remote

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// published is a service that says what it serves and checks parameters.
type published struct {
	scorerv1.UnimplementedScorerServiceServer
	name string
}

func (p published) GetScorerInfo(context.Context, *scorerv1.GetScorerInfoRequest) (*scorerv1.GetScorerInfoResponse, error) {
	return &scorerv1.GetScorerInfoResponse{Name: p.name, Version: "1", Types: []*scorerv1.ScorerType{{Name: "queue-scorer", Aliases: []string{"waiting-scorer"}}}}, nil
}

func (published) ValidateParameters(_ context.Context, in *scorerv1.ValidateParametersRequest) (*scorerv1.ValidateParametersResponse, error) {
	if string(in.GetParametersJson()) == "{}" {
		return &scorerv1.ValidateParametersResponse{EffectiveParametersJson: []byte(`{"a":1}`)}, nil
	}
	return &scorerv1.ValidateParametersResponse{Faults: []*scorerv1.ParameterFault{{Key: "a", Message: "unknown"}, {Message: "too many"}}}, nil
}

func told(asked any) string {
	return string(asked.(interface{ EffectiveParameters() []byte }).EffectiveParameters())
}

func TestOffline(t *testing.T) {
	o, err := NewOffline(t.Context(), []scorerv1.ScorerServiceServer{published{name: "scorer-queue"}}, []string{"acme"})
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Types(); !slices.Equal(got, []string{"acme", "queue-scorer", "waiting-scorer"}) {
		t.Errorf("types %v", got)
	}
	for _, typ := range []string{"queue-scorer", "waiting-scorer"} {
		service, asked, _, warnings, err := o.Resolve("q", typ, []byte("{}"))
		if service != "scorer-queue" || err != nil || len(warnings) != 0 || told(asked) != `{"a":1}` {
			t.Errorf("%s: service %q, told %q, warnings %q, error %v", typ, service, told(asked), warnings, err)
		}
	}
	_, _, _, _, err = o.Resolve("q", "queue-scorer", []byte(`{"a":1}`))
	var keyed interface{ ParameterKey() string }
	if err == nil || err.Error() != "unknown\ntoo many" || !errors.As(err, &keyed) || keyed.ParameterKey() != "a" {
		t.Errorf("error %v", err)
	}
	if _, asked, _, warnings, err := o.Resolve("x", "acme", []byte(`{"a":1}`)); err != nil || len(warnings) != 1 || told(asked) != "" {
		t.Errorf("unchecked: told %q, warnings %q, error %v", told(asked), warnings, err)
	}
	if _, _, _, _, err = o.Resolve("x", "quue-scorer", nil); err == nil || !strings.Contains(err.Error(), `did you mean "queue-scorer"?; served: acme`) {
		t.Errorf("unknown: %v", err)
	}
	if _, err := NewOffline(t.Context(), []scorerv1.ScorerServiceServer{published{name: "No Name"}}, nil); err == nil {
		t.Error("a service without a proper name was taken")
	}
}
