package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// A proxy beside the endpoint that decodes tells by a reason whose failure it passes on.
func TestCulprit(t *testing.T) {
	d, p, e1, e2 := &roster.Endpoint{ID: "d"}, &roster.Endpoint{ID: "p"}, &roster.Endpoint{ID: "e1"}, &roster.Endpoint{ID: "e2"}
	plan := func(encoders int) *route.Plan {
		return &route.Plan{Stages: []route.Stage{
			{Name: route.StageEncode, Endpoints: []*roster.Endpoint{e1, e2}, Picked: encoders}, {Name: route.StagePrefill, Endpoints: []*roster.Endpoint{p, d}, Picked: 1},
		}}
	}
	for _, c := range []struct {
		plan   *route.Plan
		reason string
		want   *roster.Endpoint
	}{
		{nil, "", d}, {nil, "prefill-failed", d}, {&route.Plan{}, "encode-failed", d}, {plan(1), "", d}, {plan(1), "decode-unreachable", d},
		{plan(1), "prefill-failed", p}, {plan(1), "encode-failed", e1}, {plan(2), "encode-failed", nil},
	} {
		if got := Culprit(&route.Decision{Plan: c.plan}, d, c.reason); got != c.want {
			t.Errorf("%q: %v, want %v", c.reason, got, c.want)
		}
	}
}

// Clients read errors by the API that they speak.
func TestBody(t *testing.T) {
	for _, c := range []struct {
		name, path string
		r          Refusal
		want       string
	}{
		{"OpenAI, with a field", "/v1/chat/completions", Refusal{Status: 400, Reason: ModelMissing, Message: `no "model"`, Param: "model"},
			`{"error":{"message":"no \"model\"","type":"invalid_request_error","param":"model","code":"model_missing"}}`},
		{"OpenAI, busy", "/v1/completions", Refusal{Status: 429, Reason: Shed, Message: "busy"},
			`{"error":{"message":"busy","type":"rate_limit_error","param":null,"code":"shed"}}`},
		{"OpenAI, ours", "/v1/threads/x/messages", Refusal{Status: 502, Reason: Reset, Message: "m"},
			`{"error":{"message":"m","type":"server_error","param":null,"code":"reset"}}`},
		{"Anthropic, wrong", "/v1/messages", Refusal{Status: 400, Reason: BadJSON, Message: "m"},
			`{"type":"error","error":{"type":"invalid_request_error","message":"m"}}`},
		{"Anthropic, counting", "/prefix/v1/messages/count_tokens", Refusal{Status: 429, Reason: Shed, Message: "m"},
			`{"type":"error","error":{"type":"rate_limit_error","message":"m"}}`},
		{"Anthropic, no such thing", "/v1/messages", Refusal{Status: 404, Reason: ModelNotFound, Message: "m"},
			`{"type":"error","error":{"type":"not_found_error","message":"m"}}`},
		{"Anthropic, large", "/v1/messages/", Refusal{Status: 413, Reason: TooLarge, Message: "m"},
			`{"type":"error","error":{"type":"request_too_large","message":"m"}}`},
		{"Anthropic, nobody", "/v1/messages", Refusal{Status: 503, Reason: NoEndpoint, Message: "m"},
			`{"type":"error","error":{"type":"overloaded_error","message":"m"}}`},
		{"Anthropic, late", "/v1/messages", Refusal{Status: 504, Reason: FirstByteTimeout, Message: "m"},
			`{"type":"error","error":{"type":"timeout_error","message":"m"}}`},
		{"Anthropic, ours", "/v1/messages", Refusal{Status: 502, Reason: Reset, Message: "m"},
			`{"type":"error","error":{"type":"api_error","message":"m"}}`},
		{"another word", "/v1/messagesque", Refusal{Status: 404, Reason: NotFound, Message: "m"},
			`{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"not_found"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(c.r.Body(c.path))
			if got != c.want {
				t.Errorf("body %s, want %s", got, c.want)
			}
			event := string(c.r.Event(c.path))
			if anthropic := strings.HasPrefix(got, `{"type":"error"`); strings.Contains(event, "\nevent: error\n") != anthropic || !strings.Contains(event, "data: "+got+"\n\n") {
				t.Errorf("event %q", event)
			}
			if !json.Valid([]byte(got)) {
				t.Error("the body is not JSON")
			}
		})
	}
}

func TestOf(t *testing.T) {
	type answer struct {
		Status int
		Reason string
		Retry  bool
	}
	bad := func(r prompt.Reason) error {
		return fmt.Errorf("read: %w", &prompt.Error{Reason: r, Err: errors.New("x")})
	}
	for name, c := range map[string]struct {
		got  *Refusal
		want answer
	}{
		"JSON":         {OfReading(nil, bad(prompt.BadJSON)), answer{400, "bad-json", false}},
		"depth":        {OfReading(nil, bad(prompt.TooDeep)), answer{400, "too-deep", false}},
		"twice":        {OfReading(nil, bad(prompt.DuplicateKey)), answer{400, "duplicate-key", false}},
		"model":        {OfReading(nil, bad(prompt.BadModel)), answer{400, "bad-model", false}},
		"encoding":     {OfReading(nil, bad(prompt.BadEncoding)), answer{400, "bad-encoding", false}},
		"bomb":         {OfReading(nil, bad(prompt.TooLarge)), answer{413, "too-large", false}},
		"another":      {OfReading(nil, errors.New("x")), answer{400, "bad-body", false}},
		"no model":     {OfReading(&prompt.Reading{Kind: prompt.Chat}, nil), answer{400, "model-missing", false}},
		"large":        {Larger(7), answer{413, "too-large", false}},
		"unwritable":   {Unwritable(), answer{415, "not-rewritable", false}},
		"shed":         {OfDecision(fmt.Errorf("x: %w", route.ErrShed)), answer{429, "shed", true}},
		"scorer":       {OfDecision(route.ErrScorerFailed), answer{503, "scorer-failed", true}},
		"nobody":       {OfDecision(route.ErrNoEndpoint), answer{503, "no-endpoint", true}},
		"out of time":  {OfDecision(context.DeadlineExceeded), answer{503, "late", true}},
		"without word": {OfDecision(nil), answer{503, "late", true}},
	} {
		if d := cmp.Diff(c.want, answer{c.got.Status, c.got.Reason.String(), c.got.Retry}); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	for name, got := range map[string]*prompt.Reading{
		"a model": {Kind: prompt.Chat, Model: "m"}, "not read": {Kind: prompt.Chat, Opaque: "x"}, "needs none": {Kind: prompt.Tokenize},
	} {
		if r := OfReading(got, nil); r != nil {
			t.Errorf("%s: refused with %+v", name, r)
		}
	}
}

// B214, B216: case does not matter, and nothing near such a name is taken for one.
func TestRouting(t *testing.T) {
	for _, name := range append(RoutingHeaders(), "x-pointsman-anything", "x-pointsman-") {
		for _, spelt := range []string{name, strings.ToUpper(name), strings.ToTitle(name[:1]) + name[1:]} {
			if !Routing(spelt) {
				t.Errorf("%s is not one", spelt)
			}
		}
	}
	for _, name := range []string{"", "x", "x-", "x-pointsman", "x-request-id", HeaderObjective, "x-prefiller-urls", "content-length", "y-prefiller-url", "x-gateway-destination-endpoint-other"} {
		if Routing(name) {
			t.Errorf("%s is one", name)
		}
	}
}

func TestIDs(t *testing.T) {
	for id, want := range map[string]bool{"": false, "abc-1": true, "a b": false, "a\n": false, "é": false, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false} {
		if UsableID(id) != want {
			t.Errorf("%q: %t", id, !want)
		}
	}
	if a, b := NewID(), NewID(); a == b || len(a) != 32 || !UsableID(a) {
		t.Errorf("ids %q, %q", a, b)
	}
}

func TestMeter(t *testing.T) {
	tel := telemetry.Discard()
	m, err := NewMeter(tel.Meter, "test", "All of it.")
	if err != nil {
		t.Fatal(err)
	}
	m.Begin()
	m.Begin()
	m.Unread()
	for status, class := range map[int]string{0: "none", 200: "2xx", 302: "3xx", 404: "4xx", 503: "5xx"} {
		m.Begin()
		m.End(status, Reset, time.Second, 3, 5)
		if got := tel.Value("pointsman_router_test_requests_total", "code", class, "reason", "reset"); got != 1 {
			t.Errorf("%v requests of %s", got, class)
		}
	}
	for name, want := range map[string]float64{"requests_in_flight": 2, "request_bytes_total": 15, "response_bytes_total": 25, "unread_encodings_total": 1} {
		if got := tel.Value("pointsman_router_test_" + name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { m.Begin(); m.End(200, OK, time.Second, 1, 1); m.Unread() }); n > 0 {
		t.Errorf("counting allocates %v times", n)
	}
	seen := map[string]bool{}
	for r := range Reasons {
		if r.String() == "" || seen[r.String()] {
			t.Errorf("reason %d has the name %q", r, r)
		}
		seen[r.String()] = true
	}
}
