package scorer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

func TestNewServerFindsAllFaults(t *testing.T) {
	good := []Type{newStub("queue-scorer")}
	outcomes := func(context.Context, *scorerv1.ReportOutcomesRequest) error { return nil }
	cases := []struct {
		name         string
		server       string
		version      string
		capabilities []scorerv1.Capability
		types        []Type
		set          func(*Config)
		want         []string // none: good
	}{
		{"good", "scorer-queue", "1", allCapabilities, good, nil, nil},
		{"longest name", strings.Repeat("a", 63), "1", nil, good, nil, nil},
		{"name too long", strings.Repeat("a", 64), "1", nil, good, nil, []string{"name of the scorer"}},
		{"no name", "", "1", nil, good, nil, []string{"name of the scorer"}},
		{"upper case", "Scorer", "1", nil, good, nil, []string{`"Scorer"`}},
		{"begins with a dash", "-a", "1", nil, good, nil, []string{`"-a"`}},
		{"ends with a dash", "a-", "1", nil, good, nil, []string{`"a-"`}},
		{"no version, no types", "a", "", nil, nil, nil, []string{"version: missing", "types: at least one"}},
		{"name of a type", "a", "1", nil, []Type{newStub("a_b")}, nil, []string{`name of a type: "a_b"`}},
		{"alias of a type", "a", "1", nil, []Type{newStub("a", "")}, nil, []string{`name of a type: ""`}},
		{"types alike", "a", "1", nil, []Type{newStub("a"), newStub("a")}, nil, []string{`the name "a" is used twice`}},
		{"alias is another's name", "a", "1", nil, []Type{newStub("a"), newStub("b", "a")}, nil, []string{`the name "a" is used twice`}},
		{"capability twice", "a", "1", []scorerv1.Capability{1, 1}, good, nil, []string{"CAPABILITY_TABLE_REFERENCE"}},
		{"no capability", "a", "1", []scorerv1.Capability{0}, good, nil, []string{"CAPABILITY_UNSPECIFIED"}},
		{"outcomes without a receiver", "a", "1", []scorerv1.Capability{scorerv1.Capability_CAPABILITY_OUTCOMES}, good, nil, []string{"Config.ReportOutcomes"}},
		{"outcomes not listed", "a", "1", nil, good, func(c *Config) { c.ReportOutcomes = outcomes }, []string{"Config.ReportOutcomes"}},
		{"no cache", "a", "1", nil, good, func(c *Config) { c.ParameterCacheSize = 0 }, []string{"cache size"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			if c.set != nil {
				c.set(&cfg)
			}
			s, err := NewServer(c.server, c.version, c.capabilities, c.types, cfg)
			if (s == nil) != (err != nil) || (err == nil) != (len(c.want) == 0) {
				t.Fatalf("NewServer = %v, %v", s, err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("NewServer = %v, want %q", err, want)
				}
			}
		})
	}
}

func TestInfoIsWhatTheTypesSay(t *testing.T) {
	c := dial(t, newServer(t, newStub("a", "b"), newStub("c")))
	want := &scorerv1.GetScorerInfoResponse{
		Name: "test", Version: "1", Capabilities: allCapabilities,
		Types: []*scorerv1.ScorerType{newStub("a", "b").info, newStub("c").info},
	}
	for range 2 {
		got, err := c.GetScorerInfo(t.Context(), &scorerv1.GetScorerInfoRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestValidateParameters(t *testing.T) {
	typ := newStub("queue-scorer", "q")
	typ.parse = func(text []byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
		switch string(text) {
		case `{"bad":1}`:
			return nil, nil, []*scorerv1.ParameterFault{{Key: "bad", Message: "is not known"}, {Message: "and more"}}
		case `{"size":3}`:
			return 3, &scorerv1.InputNeeds{PrefixBlockSizeBytes: 3}, nil
		case `{"panic":1}`:
			panic("secret")
		}
		return nil, nil, nil
	}
	c := dial(t, newServer(t, typ))
	defaults := typ.info.GetDefaultNeeds()
	cases := []struct {
		name, scorerType, parameters string
		want                         *scorerv1.ValidateParametersResponse
		fault                        fault
	}{
		{"none", "queue-scorer", "", &scorerv1.ValidateParametersResponse{Needs: defaults}, fault{}},
		{"by alias", "q", "{}", &scorerv1.ValidateParametersResponse{Needs: defaults}, fault{}},
		{"needs of its own", "q", `{"size":3}`, &scorerv1.ValidateParametersResponse{Needs: &scorerv1.InputNeeds{PrefixBlockSizeBytes: 3}}, fault{}},
		{"all faults", "q", `{"bad":1}`, &scorerv1.ValidateParametersResponse{Faults: []*scorerv1.ParameterFault{
			{Key: "bad", Message: "is not known"}, {Message: "and more"}}}, fault{}},
		{"not JSON", "q", `{"size":`, &scorerv1.ValidateParametersResponse{Faults: []*scorerv1.ParameterFault{
			{Message: "this is not valid JSON; a JSON object is wanted"}}}, fault{}},
		{"not an object", "q", ` [1]`, &scorerv1.ValidateParametersResponse{Faults: []*scorerv1.ParameterFault{
			{Message: "a JSON object is wanted"}}}, fault{}},
		{"another type", "kv", "", nil, fault{codes.InvalidArgument, "INVALID_REQUEST", "queue-scorer"}},
		{"no type", "", "", nil, fault{codes.InvalidArgument, "INVALID_REQUEST", "queue-scorer"}},
		{"a panic", "q", `{"panic":1}`, nil, fault{codes.Internal, "", "queue-scorer panicked"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := c.ValidateParameters(t.Context(), &scorerv1.ValidateParametersRequest{ScorerType: tc.scorerType, ParametersJson: []byte(tc.parameters)})
			if f := unaryFault(t, err); !f.is(tc.fault.Code, tc.fault.Reason, tc.fault.Message) || strings.Contains(f.Message, "secret") {
				t.Fatalf("fault %+v, want %+v", f, tc.fault)
			}
			if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A type that tells has its word passed on, if it is an object, and only for good
// parameters.
func TestEffectiveParameters(t *testing.T) {
	typ := &teller{newStub("a"), func(text []byte) []byte {
		switch string(text) {
		case "":
			return []byte(`{"size":64}`)
		case `{"panic":1}`:
			panic("secret")
		case `{"silent":1}`:
			return nil
		}
		return []byte("[1]")
	}}
	typ.parse = func(text []byte) (any, *scorerv1.InputNeeds, []*scorerv1.ParameterFault) {
		if string(text) == `{"bad":1}` {
			return nil, nil, []*scorerv1.ParameterFault{{Key: "bad", Message: "is not known"}}
		}
		return nil, nil, nil
	}
	logged := &journal{}
	cfg := DefaultConfig()
	cfg.Log = logged.logger()
	s := newServerWith(t, cfg, nil, typ)
	for parameters, want := range map[string]string{"": `{"size":64}`, `{"silent":1}`: "", `{"list":1}`: "", `{"bad":1}`: ""} {
		got, err := s.ValidateParameters(t.Context(), &scorerv1.ValidateParametersRequest{ScorerType: "a", ParametersJson: []byte(parameters)})
		if err != nil || string(got.GetEffectiveParametersJson()) != want {
			t.Errorf("%s: effective %q, want %q, error %v", parameters, got.GetEffectiveParametersJson(), want, err)
		}
	}
	if !strings.Contains(logged.String(), "no JSON object") {
		t.Errorf("log %q", logged)
	}
	_, err := s.ValidateParameters(t.Context(), &scorerv1.ValidateParametersRequest{ScorerType: "a", ParametersJson: []byte(`{"panic":1}`)})
	if f := unaryFault(t, contract(err)); f.Code != codes.Internal || strings.Contains(f.Message, "secret") {
		t.Errorf("a panic: %+v", f)
	}
}

func TestParametersAreParsedOnce(t *testing.T) {
	typ := newStub("a", "b")
	var seen []string
	typ.score = func(_ context.Context, instance any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
		seen = append(seen, instance.(string))
		AbstainAll(out, scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE)
		return nil
	}
	cfg := DefaultConfig()
	cfg.ParameterCacheSize = 2
	s := newServerWith(t, cfg, nil, typ)
	score := func(scorerType, parameters string) {
		t.Helper()
		req := listed(scorerType, "e")
		req.ParametersJson = []byte(parameters)
		if _, err := s.Score(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	huge := `{"x":"` + strings.Repeat("y", longestCached) + `"}`
	for _, step := range []struct {
		scorerType, parameters string
		parses                 int64
	}{
		{"a", "", 1},
		{"b", "", 1},
		{"a", `{"x":1}`, 2},
		{"a", `{"x":1}`, 2},
		{"a", "", 2},
		{"a", `{"x":2}`, 3}, // beyond the size, so the others are forgotten
		{"a", `{"x":2}`, 3},
		{"a", `{"x":1}`, 4},
		{"a", huge, 5}, // never kept
		{"a", huge, 6},
	} {
		score(step.scorerType, step.parameters)
		if got := typ.parses.Load(); got != step.parses {
			t.Fatalf("%.10s: parsed %d times, want %d", step.parameters, got, step.parses)
		}
		if got := seen[len(seen)-1]; got != step.parameters {
			t.Fatalf("instance of %.10q, want %.10q", got, step.parameters)
		}
	}
}

func TestReportOutcomes(t *testing.T) {
	var got *scorerv1.ReportOutcomesRequest
	var fail error
	cfg := DefaultConfig()
	cfg.ReportOutcomes = func(_ context.Context, req *scorerv1.ReportOutcomesRequest) error {
		got = req
		return fail
	}
	s := newServerWith(t, cfg, []scorerv1.Capability{scorerv1.Capability_CAPABILITY_OUTCOMES}, newStub("a"))
	good := func() *scorerv1.ReportOutcomesRequest {
		return &scorerv1.ReportOutcomesRequest{RouterId: "r", BatchSequence: 1, Outcomes: []*scorerv1.Outcome{
			{RequestId: "q", EndpointId: "e", EventTime: timestamppb.Now()}, // an event from the future
		}}
	}
	if _, err := s.ReportOutcomes(t.Context(), good()); err != nil || got == nil {
		t.Fatalf("ReportOutcomes = %v, handed over %v", err, got)
	}
	for name, spoil := range map[string]func(*scorerv1.ReportOutcomesRequest){
		"router_id":      func(r *scorerv1.ReportOutcomesRequest) { r.RouterId = "" },
		"batch_sequence": func(r *scorerv1.ReportOutcomesRequest) { r.BatchSequence = 0 },
		"outcomes: 0":    func(r *scorerv1.ReportOutcomesRequest) { r.Outcomes = nil },
		"outcomes: 1001": func(r *scorerv1.ReportOutcomesRequest) { r.Outcomes = make([]*scorerv1.Outcome, 1001) },
		"request_id":     func(r *scorerv1.ReportOutcomesRequest) { r.Outcomes[0].RequestId = strings.Repeat("x", 129) },
		"endpoint_id":    func(r *scorerv1.ReportOutcomesRequest) { r.Outcomes[0].EndpointId = "" },
		"event_time":     func(r *scorerv1.ReportOutcomesRequest) { r.Outcomes[0].EventTime = nil },
	} {
		got = nil
		req := good()
		spoil(req)
		_, err := s.ReportOutcomes(t.Context(), req)
		if f := unaryFault(t, err); !f.is(codes.InvalidArgument, ReasonInvalidRequest, name) || got != nil {
			t.Errorf("%s: %+v, handed over %v", name, f, got)
		}
	}
	fail = errors.New("no room")
	if _, err := s.ReportOutcomes(t.Context(), good()); status.Code(err) != codes.Internal {
		t.Errorf("the receiver's error comes as %v", err)
	}
	_, err := newServer(t, newStub("a")).ReportOutcomes(t.Context(), good())
	if f := unaryFault(t, err); !f.is(codes.Unimplemented, "", "CAPABILITY_OUTCOMES") {
		t.Errorf("without the capability: %+v", f)
	}
}

func TestObserve(t *testing.T) {
	typ := newStub("a", "b")
	typ.score = func(_ context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
		if req.GetRequest().GetModel() == "fail" {
			return Overloaded("full")
		}
		AbstainAll(out, scorerv1.AbstainReason_ABSTAIN_REASON_STALE_STATE)
		return nil
	}
	var got []string
	cfg := DefaultConfig()
	cfg.Observe = func(o Observation) {
		if o.Took < 0 {
			t.Errorf("Took = %v", o.Took)
		}
		got = append(got, fmt.Sprintf("%q stream %t %v abstained %t", o.Type, o.Stream, o.Code, o.Abstained))
	}
	s := newServerWith(t, cfg, allCapabilities, typ, newStub("c"))
	failing := listed("a", "e")
	failing.Request.Model = "fail"
	for _, req := range []*scorerv1.ScoreRequest{listed("b", "e"), listed("c", "e"), failing, listed("x", "e")} {
		s.Score(t.Context(), req)
	}
	connect(t, dial(t, s)).call(listed("b", "e"))
	want := []string{
		`"a" stream false OK abstained true`,
		`"c" stream false OK abstained false`,
		`"a" stream false ResourceExhausted abstained false`,
		`"" stream false InvalidArgument abstained false`,
		`"a" stream true OK abstained true`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
