package remote

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func noSuchHost(context.Context, string) ([]string, error) { return nil, errors.New("no such host") }

// A configuration that uses the built-in scorers loads while nobody is there.
func TestResolveBuiltins(t *testing.T) {
	r := newRig(t, nil, withLookup(noSuchHost))
	for typ, service := range map[string]string{
		"queue-scorer": "scorer-queue", "kv-cache-utilization-scorer": "scorer-kv", "prefix-cache-scorer": "prefix-indexer",
	} {
		got, asked, failClosed, warnings, err := r.set.Resolve("p", typ, nil)
		if err != nil || got != service || failClosed {
			t.Errorf("%s: %s, fail closed %v, %v", typ, got, failClosed, err)
		}
		if len(warnings) != 1 || !strings.Contains(warnings[0], "not reachable: look up "+service) {
			t.Errorf("%s: warnings %q", typ, warnings)
		}
		out := r.ask(route.Scorer{Asked: asked})[0]
		r.wantVerdict(out, route.Skipped)
		if !strings.Contains(out.Reason, "no such host") {
			t.Errorf("%s: reason %q", typ, out.Reason)
		}
	}
}

// Built-in services that nobody uses are left alone.
func TestUnusedBuiltinsAreNotContacted(t *testing.T) {
	looked := make(chan string, 100)
	s := newHandmade("acme")
	r := newRig(t, one("acme", s.serve(t, "")), withLookup(func(_ context.Context, host string) ([]string, error) {
		looked <- host
		return nil, errors.New("no such host")
	}))
	r.wantVerdict(r.ask(r.resolved("acme"))[0], route.Scored)
	if len(looked) != 0 {
		t.Errorf("%s was looked up", <-looked)
	}
	if st := r.set.Status(); len(st) != 1 || st[0].Name != "acme" {
		t.Errorf("status %v", st)
	}
}

func TestResolveUnknownType(t *testing.T) {
	s := newHandmade("acme-carbon")
	r := newRig(t, []ScorerConfig{{Name: "acme", Target: s.serve(t, "")}, {Name: "gone", Target: "127.0.0.1:1"}},
		func(c *rigConfig) { c.cfg.ScorerWait = conf.Duration(300 * time.Millisecond) })
	_, _, _, _, err := r.set.Resolve("p", "acme-carbom", nil)
	if err == nil {
		t.Fatal("an unknown type was resolved")
	}
	for _, want := range []string{`no scorer serves type "acme-carbom"`, `did you mean "acme-carbon"?`, "queue-scorer", "not reached: gone (127.0.0.1:1: not reachable: ", "connection refused"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than a line", err)
	}
}

// Without the part nothing is waited for.
func TestResolveBeforePart(t *testing.T) {
	r := newRig(t, one("acme", "127.0.0.1:1"), func(c *rigConfig) { c.idle = true; c.cfg.ScorerWait = conf.Duration(time.Hour) })
	if _, _, _, _, err := r.set.Resolve("p", "nothing", nil); err == nil {
		t.Error("resolved")
	}
	_, asked, _, warnings, err := r.set.Resolve("p", "queue-scorer", nil)
	if err != nil || len(warnings) != 2 {
		t.Errorf("%q, %v", warnings, err)
	}
	out := r.ask(route.Scorer{Asked: asked})[0]
	r.wantVerdict(out, route.Skipped)
	if out.Reason != "not connected yet" {
		t.Errorf("reason %q", out.Reason)
	}
	if got := r.set.Types(); !cmp.Equal(got, []string{"active-request-scorer", "context-length-aware", "kv-cache-scorer", "kv-cache-utilization-scorer", "load-aware-scorer", "lora-affinity-scorer",
		"no-hit-lru-scorer", "prefix-cache-scorer", "queue-scorer", "running-requests-size-scorer", "session-affinity-scorer", "token-load-scorer"}) {
		t.Errorf("types %q", got)
	}
}

// A type is waited for while its service may be starting.
func TestResolveWaits(t *testing.T) {
	s := newHandmade("acme-carbon")
	z := &zone{err: errors.New("not yet")}
	s.info.Types[0].Aliases = []string{"acme-co2"}
	address := s.serve(t, "127.0.0.1:0")
	port := address[strings.LastIndex(address, ":"):]
	r := newRig(t, one("acme", "dns:///acme.test"+port), withLookup(z.lookup), func(c *rigConfig) {
		c.cfg.ScorerWait = conf.Duration(time.Hour)
		c.cfg.ScorerLookup = conf.Duration(100 * time.Millisecond)
	})
	go func() {
		kittest.Eventually(t, "a look-up", func() bool { z.mu.Lock(); defer z.mu.Unlock(); return z.asked > 0 })
		z.set(nil, "127.0.0.1")
	}()
	if got := r.set.Types(); !strings.Contains(strings.Join(got, " "), "acme-carbon acme-co2") {
		t.Errorf("types %q", got)
	}
	r.wantVerdict(r.ask(r.resolved("acme-co2"))[0], route.Scored)
}

func TestWhoServesAType(t *testing.T) {
	queue, mine, other := newHandmade("queue-scorer"), newHandmade("queue-scorer"), newHandmade("queue-scorer", "acme")
	queueAt, mineAt, otherAt := queue.serve(t, ""), mine.serve(t, ""), other.serve(t, "")
	for name, tc := range map[string]struct {
		scorers []ScorerConfig
		want    string
		fault   string
	}{
		"the built-in service":              {[]ScorerConfig{{Name: "scorer-queue", Target: queueAt}}, "scorer-queue", ""},
		"a configured one over a built-in":  {[]ScorerConfig{{Name: "scorer-queue", Target: queueAt}, {Name: "mine", Target: mineAt}}, "mine", ""},
		"wherever it stands":                {[]ScorerConfig{{Name: "mine", Target: mineAt}, {Name: "scorer-queue", Target: queueAt}}, "mine", ""},
		"two configured ones":               {[]ScorerConfig{{Name: "mine", Target: mineAt}, {Name: "other", Target: otherAt}}, "", `scorer type "queue-scorer" is served by mine, other: say types: [queue-scorer]`},
		"the one that the operator names":   {[]ScorerConfig{{Name: "mine", Target: mineAt}, {Name: "other", Target: otherAt, Types: []string{"queue-scorer"}}}, "other", ""},
		"the built-in, if it is named":      {[]ScorerConfig{{Name: "mine", Target: mineAt}, {Name: "scorer-queue", Target: queueAt, Types: []string{"queue-scorer"}}}, "scorer-queue", ""},
		"not one that is kept to something": {[]ScorerConfig{{Name: "scorer-queue", Target: queueAt}, {Name: "other", Target: otherAt, Types: []string{"acme"}}}, "scorer-queue", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tc.scorers)
			got, _, _, warnings, err := r.set.Resolve("p", "queue-scorer", nil)
			if got != tc.want || len(warnings) > 0 {
				t.Errorf("%q, warnings %q", got, warnings)
			}
			if tc.fault == "" && err != nil || tc.fault != "" && (err == nil || !strings.Contains(err.Error(), tc.fault)) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// A service that has not been reached might serve a built-in's type: that is said.
func TestResolveWithARivalDown(t *testing.T) {
	queue := newHandmade("queue-scorer")
	r := newRig(t, []ScorerConfig{{Name: "scorer-queue", Target: queue.serve(t, "")}, {Name: "mine", Target: "127.0.0.1:1"}},
		func(c *rigConfig) { c.cfg.ScorerWait = conf.Duration(100 * time.Millisecond) })
	service, _, _, warnings, err := r.set.Resolve("p", "queue-scorer", nil)
	if service != "scorer-queue" || err != nil {
		t.Errorf("%s, %v", service, err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "mine, which may serve it too, has not been reached") {
		t.Errorf("warnings %q", warnings)
	}
}

func TestParametersAreValidated(t *testing.T) {
	s := newHandmade("acme")
	s.validate = func(m *scorerv1.ValidateParametersRequest) (*scorerv1.ValidateParametersResponse, error) {
		if m.GetScorerType() != "acme" || string(m.GetParametersJson()) != `{"a":{"b":-1}}` {
			return nil, status.Error(codes.InvalidArgument, "what?")
		}
		return &scorerv1.ValidateParametersResponse{Faults: []*scorerv1.ParameterFault{{Key: "a.b", Message: "must not be negative"}, {Message: "all is\nwrong"}}}, nil
	}
	r := newRig(t, one("acme", s.serve(t, "")))
	_, _, _, _, err := r.set.Resolve("p", "acme", []byte(`{"a":{"b":-1}}`))
	var keyed interface{ ParameterKey() string }
	if !errors.As(err, &keyed) || keyed.ParameterKey() != "a.b" {
		t.Errorf("%v names no key", err)
	}
	if err == nil || err.Error() != "must not be negative\nall is wrong" {
		t.Errorf("error %q", err)
	}
	if _, _, _, _, err = r.set.Resolve("p", "acme", nil); err == nil || !strings.Contains(err.Error(), "InvalidArgument: what?") {
		t.Errorf("error %v", err)
	}
}

func TestNeedsThatCannotBeMet(t *testing.T) {
	for name, tc := range map[string]struct {
		needs *scorerv1.InputNeeds
		word  string
	}{
		"unknown to us":        {&scorerv1.InputNeeds{RequiredInputs: []scorerv1.Input{77}}, "input 77, which this router does not know"},
		"prompt not allowed":   {&scorerv1.InputNeeds{RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_PROMPT_TEXT}}, "promptText: true"},
		"no block size":        {&scorerv1.InputNeeds{RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_PREFIX_BLOCKS}}, "prefix blocks of 0 bytes"},
		"no header":            {&scorerv1.InputNeeds{RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_REQUEST_HEADERS}}, "names 0 of them"},
		"a header in capitals": {&scorerv1.InputNeeds{RequiredInputs: []scorerv1.Input{scorerv1.Input_INPUT_REQUEST_HEADERS}, HeaderNames: []string{"X-Zone"}}, "lower case"},
		"tokens in capitals":   {&scorerv1.InputNeeds{SessionHeaderName: "X-Session"}, "no header name in lower case"},
		"tokens in no header":  {&scorerv1.InputNeeds{SessionHeaderName: "x session"}, "no header name in lower case"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHandmade("acme").needing(tc.needs)
			r := newRig(t, one("acme", s.serve(t, "")))
			if _, _, _, _, err := r.set.Resolve("p", "acme", nil); err == nil || !strings.Contains(err.Error(), tc.word) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// Parameters that turn out to be wrong when the scorer is reached: the plug-in is not
// asked there, which is told.
func TestFaultFoundOnConnecting(t *testing.T) {
	s := newHandmade("acme")
	s.validate = func(*scorerv1.ValidateParametersRequest) (*scorerv1.ValidateParametersResponse, error) {
		return &scorerv1.ValidateParametersResponse{Faults: []*scorerv1.ParameterFault{{Key: "a", Message: "no"}}}, nil
	}
	z := &zone{err: errors.New("not yet")}
	address := s.serve(t, "127.0.0.1:0")
	r := newRig(t, []ScorerConfig{{Name: "acme", Target: "dns:///acme.test" + address[strings.LastIndex(address, ":"):], Types: []string{"acme"}, FailurePolicy: Fail}},
		withLookup(z.lookup), func(c *rigConfig) { c.cfg.ScorerLookup = conf.Duration(100 * time.Millisecond) })
	_, asked, failClosed, warnings, err := r.set.Resolve("p", "acme", nil)
	if err != nil || !failClosed || len(warnings) != 1 {
		t.Fatalf("fail closed %v, %q, %v", failClosed, warnings, err)
	}
	z.set(nil, "127.0.0.1")
	sc := route.Scorer{Asked: asked}
	kittest.Eventually(t, "the refusal", func() bool {
		out := r.ask(sc)[0]
		return out.Verdict == route.Skipped && out.Reason == "refused: a: no"
	})
	kittest.Eventually(t, "it to be counted", func() bool { return r.value("pointsman_router_scorer_refusals_total", "scorer", "acme") == 1 })
	if s.calls.Load() != 0 {
		t.Error("it was asked all the same")
	}
}

// What a scorer says that parameters come to is kept, if it is an object.
func TestEffectiveParameters(t *testing.T) {
	for name, c := range map[string]struct{ says, want string }{
		"it tells":      {" {\"a\": 1} ", `{"a": 1}`},
		"it does not":   {"", ""},
		"not an object": {"[1]", ""},
		"not JSON":      {`{"a":`, ""},
		"without end":   {`{"a":"` + strings.Repeat("x", maxTold) + `"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHandmade("acme")
			s.validate = func(*scorerv1.ValidateParametersRequest) (*scorerv1.ValidateParametersResponse, error) {
				return &scorerv1.ValidateParametersResponse{EffectiveParametersJson: []byte(c.says)}, nil
			}
			r := newRig(t, one("acme", s.serve(t, "")))
			if got := told(r.resolved("acme").Asked); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	if got := newInstance(&service{}, "p", "acme", nil).EffectiveParameters(); got != nil {
		t.Errorf("nobody was asked and told %q", got)
	}
}

// A replica that does not answer about parameters is asked again.
func TestValidationIsRepeated(t *testing.T) {
	s := newHandmade("acme")
	good := s.validate
	s.validate = func(m *scorerv1.ValidateParametersRequest) (*scorerv1.ValidateParametersResponse, error) {
		if s.validated.Load() == 1 {
			return nil, status.Error(codes.Unavailable, "warming up")
		}
		return good(m)
	}
	r := newRig(t, one("acme", s.serve(t, "")))
	_, asked, _, warnings, err := r.set.Resolve("p", "acme", nil)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "warming up") {
		t.Fatalf("%q, %v", warnings, err)
	}
	kittest.Eventually(t, "a score", func() bool { return r.ask(route.Scorer{Asked: asked})[0].Verdict == route.Scored })
}

// Instances of configurations that are gone are not validated for ever.
func TestInstancesAreForgotten(t *testing.T) {
	s := newHandmade("acme")
	r := newRig(t, one("acme", s.serve(t, "")))
	kept := r.resolved("acme")
	for range 50 {
		r.resolve("acme")
	}
	kittest.Eventually(t, "the others to be forgotten", func() bool { runtime.GC(); return len(r.set.services[3].live()) == 1 })
	r.wantVerdict(r.ask(kept)[0], route.Scored)
}

func TestConfigValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  func(*Config)
		want []string
	}{
		"defaults":                  {func(*Config) {}, nil},
		"built-in without a target": {func(c *Config) { c.Scorers = []ScorerConfig{{Name: "scorer-kv", FailurePolicy: Fail}} }, nil},
		"all wrong": {func(c *Config) {
			c.Scorers = []ScorerConfig{
				{Name: "A", Target: "x", FailurePolicy: "fail", Transport: "udp", Timeout: -1, Types: []string{"Q"}},
				{Name: "b"}, {Name: "b", Target: "x:1"},
			}
			c.ScorerWait, c.ScorerLookup, c.ScorerAnswerBytes = -1, 0, 1
		}, []string{
			"scorerWait: ", "scorerLookup: ", "scorerAnswerBytes: ", "scorers[0].name: ", "scorers[0].target: ", "scorers[0].types: ", "scorers[0].timeout: ",
			"scorers[0].failurePolicy: ", "scorers[0].transport: ", "scorers[1].target: must be set", `scorers[2].name: "b" is there twice`,
		}},
		"a type taken twice": {func(c *Config) {
			c.Scorers = []ScorerConfig{{Name: "a", Target: "x:1", Types: []string{"q"}}, {Name: "b", Target: "x:2", Types: []string{"q"}}}
		}, []string{`scorers[1].types: "q" is taken by scorer "a" already`}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			tc.cfg(&cfg)
			err := cfg.Validate()
			if (err == nil) != (len(tc.want) == 0) {
				t.Fatalf("error %v", err)
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q lacks %q", err, w)
				}
			}
		})
	}
}

// A service that stays connected is asked for its instances by nobody: those that nobody
// keeps are forgotten all the same, however often texts are checked.
func TestInstancesOfCheckedTextsAreForgotten(t *testing.T) {
	s, err := newService(nil, ScorerConfig{Name: "acme", Target: "acme:9100"}, true)
	if err != nil {
		t.Fatal(err)
	}
	kept := newInstance(s, "kept", "acme", nil)
	s.register(kept)
	for range 40 {
		for range 100 {
			s.register(newInstance(s, "p", "acme", nil))
		}
		runtime.GC()
	}
	if n := len(s.instances); n > 1000 {
		t.Errorf("%d of 4001 instances are remembered", n)
	}
	if all := s.live(); len(all) != 1 || all[0] != kept {
		t.Errorf("%d instances are live", len(all))
	}
	runtime.KeepAlive(kept)
}
