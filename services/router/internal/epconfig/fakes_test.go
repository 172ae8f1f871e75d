package epconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// scorers resolves a few types as the services do, and keeps what it was given.
type scorers struct {
	got map[string]string // parameters by plug-in name
}

// badParameter is a fault of one parameter.
type badParameter struct{ key, message string }

func (b badParameter) Error() string        { return b.message }
func (b badParameter) ParameterKey() string { return b.key }

func (*scorers) Types() []string {
	return []string{
		"queue-scorer", "kv-cache-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer", "lora-affinity-scorer", "running-requests-size-scorer", "context-length-aware", "session-affinity-scorer", "no-hit-lru-scorer", "acme-odd",
	}
}

func (s *scorers) Resolve(name, typ string, parameters []byte) (service string, ask any, failClosed bool, warnings []string, err error) {
	if near := conf.Near(typ, s.Types(), 1); !slices.Contains(s.Types(), typ) {
		return "", nil, false, nil, fmt.Errorf("no scorer serves type %q%s; not reached: acme", typ, strings.Join(append([]string{""}, near...), "; did you mean "))
	}
	if s.got == nil {
		s.got = map[string]string{}
	}
	s.got[name] = string(parameters)
	if typ == "prefix-cache-scorer" && len(parameters) > 0 {
		var values map[string]json.RawMessage
		if err := json.Unmarshal(parameters, &values); err != nil {
			return "", nil, false, nil, err
		}
		var faults []error
		for key, raw := range values {
			var n int64
			switch {
			case strings.EqualFold(key, "autoTune"), strings.EqualFold(key, "blockSizeTokens"):
			case key != "hashBlockSize" && key != "maxPrefixBlocksToMatch" && key != "lruCapacityPerServer":
				faults = append(faults, badParameter{key, "no such parameter"})
			case json.Unmarshal(raw, &n) != nil:
				faults = append(faults, badParameter{key, fmt.Sprintf("must be a whole number, not %s", raw)})
			case n <= 0:
				faults = append(faults, badParameter{key, "must be above 0"})
			}
		}
		if len(faults) > 0 {
			return "", nil, false, nil, errors.Join(faults...)
		}
	}
	if typ == "lora-affinity-scorer" {
		warnings = []string{"no endpoint has adapters"}
	}
	return "service-of-" + typ, asked{name, comesTo(typ, parameters)}, typ == "kv-cache-scorer", warnings, nil
}

// asked is what the fake has the router ask.
type asked struct{ name, comesTo string }

func (a asked) EffectiveParameters() []byte { return []byte(a.comesTo) }

// comesTo fills in the one default that the fake's types have.
func comesTo(typ string, parameters []byte) string {
	values := objectOf(parameters)
	switch {
	case typ == "lora-affinity-scorer":
		return "" // does not tell
	case typ == PrefixScorerType && values["hashBlockSize"] == nil && values["blockSizeTokens"] == nil:
		inner := strings.TrimSuffix(strings.TrimPrefix(string(parameters), "{"), "}")
		return "{" + strings.Join(slices.DeleteFunc([]string{`"hashBlockSize":64`, inner}, func(s string) bool { return s == "" }), ",") + "}"
	case len(parameters) == 0:
		return "{}"
	}
	return string(parameters)
}

// head is the two constant lines.
const head = "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\n"

func load(text string) (*Loaded, *scorers, error) {
	s := &scorers{}
	l, err := Load("epp.yaml", []byte(text), Deps{Scorers: s})
	return l, s, err
}

func mustLoad(t *testing.T, text string) *Loaded {
	t.Helper()
	l, _, err := load(text)
	if err != nil {
		t.Fatalf("%v\nin:\n%s", err, text)
	}
	return l
}

// want is what a text comes to.
type want struct {
	errs     []string // in the error; none: it loads
	warnings []string
	infos    []string
	check    func(t *testing.T, l *Loaded)
}

func (w want) run(t *testing.T, text string) {
	t.Helper()
	l, _, err := load(text)
	if len(w.errs) == 0 && err != nil {
		t.Fatalf("%v", err)
	}
	if len(w.errs) > 0 {
		if err == nil {
			t.Fatalf("loaded, want an error with %q", w.errs)
		}
		contains(t, "error", err.Error(), w.errs)
		if got := len(strings.Split(err.Error(), "\n")); got != len(w.errs) {
			t.Errorf("%d faults, want %d:\n%v", got, len(w.errs), err)
		}
		return
	}
	contains(t, "warnings", notices(l.Warnings), w.warnings)
	if len(l.Warnings) != len(w.warnings) {
		t.Errorf("%d warnings, want %d:\n%s", len(l.Warnings), len(w.warnings), notices(l.Warnings))
	}
	contains(t, "infos", notices(l.Infos), w.infos)
	if w.check != nil {
		w.check(t, l)
	}
}

func notices(ns []Notice) string { return Faults(ns).Error() }

func contains(t *testing.T, what, got string, parts []string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("%s: %q is not in:\n%s", what, part, got)
		}
	}
}

// shape writes a profile as "name: filters | scorer×weight … | picker(max)".
func shape(p *route.Profile) string {
	var b strings.Builder
	b.WriteString(p.Name + ":")
	for _, f := range p.Filters {
		b.WriteString(" " + f.Name())
	}
	b.WriteString(" |")
	for _, s := range p.Scorers {
		fmt.Fprintf(&b, " %s×%v", s.Plugin, s.Weight)
	}
	fmt.Fprintf(&b, " | %s(%d)", p.Picker.Name(), p.Picker.Max())
	return b.String()
}

// shaped checks the profiles' shapes.
func shaped(shapes ...string) func(*testing.T, *Loaded) {
	return func(t *testing.T, l *Loaded) {
		t.Helper()
		var got []string
		for _, p := range l.Config.Profiles {
			got = append(got, shape(p))
		}
		if fmt.Sprint(got) != fmt.Sprint(shapes) {
			t.Errorf("profiles %q, want %q", got, shapes)
		}
		if l.Config.Handler == nil {
			t.Error("no handler")
		}
	}
}
