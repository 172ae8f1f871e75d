package epconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/router/internal/filter"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func file(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The complete example of the documentation: the picker stands before the scorer.
func TestDocumentedExample(t *testing.T) {
	l, s, err := load(file(t, "documented.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	shaped("default: | prefix-cache-scorer×50 | max-score-picker(1)")(t, l)
	if len(l.Warnings)+len(l.Infos) != 0 {
		t.Errorf("notices: %s%s", notices(l.Warnings), notices(l.Infos))
	}
	if got, want := s.got["prefix-cache-scorer"], `{"hashBlockSize":5,"maxPrefixBlocksToMatch":256,"lruCapacityPerServer":31250}`; got != want {
		t.Errorf("parameters %s, want %s", got, want)
	}
	got := l.Config.Profiles[0].Scorers[0]
	want := route.Scorer{Plugin: "prefix-cache-scorer", Type: "prefix-cache-scorer", Service: "service-of-prefix-cache-scorer", Weight: 50, Asked: asked{"prefix-cache-scorer", s.got["prefix-cache-scorer"]}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(asked{})); d != "" {
		t.Error(d)
	}
}

// All ten plug-ins of the documentation in one text.
func TestAllTenDocumentedPlugins(t *testing.T) {
	l := mustLoad(t, file(t, "ten.yaml"))
	shaped("default: low-queue-filter lora-affinity-filter least-queue-filter least-kv-cache-filter | "+
		"queue-scorer×1 kv-cache-scorer×1 prefix-cache-scorer×1 | max-score-picker(1)")(t, l)
	contains(t, "warnings", notices(l.Warnings), []string{`no profile refers to "random-picker"`})
	if !l.Config.Profiles[0].Scorers[1].FailClosed || l.Config.Profiles[0].Scorers[0].FailClosed {
		t.Error("failure policy is not taken over")
	}
}

// E6: the decision tree that the reference ships.
func TestE6ShippedTree(t *testing.T) {
	l := mustLoad(t, file(t, "tree.yaml"))
	shaped("default: low-latency-filter | | random-picker(1)")(t, l)
	if len(l.Warnings) != 0 {
		t.Error(notices(l.Warnings))
	}
	if _, ok := l.Config.Profiles[0].Filters[0].(route.LoadFilter); !ok {
		t.Error("the shipped tree is no load filter")
	}
}

func TestTreeFaults(t *testing.T) {
	const leaves = "- type: low-queue-filter\n- type: least-queue-filter\n- type: queue-scorer\n"
	tree := func(parameters string) string {
		return head + "plugins:\n" + leaves + "- type: decision-tree-filter\n  name: tree\n" + parameters
	}
	for _, c := range []struct {
		name, text string
		errs       []string
	}{
		{"no parameters", tree(""), []string{"plugins[3].parameters.current: a decision tree must have a current filter"}},
		{"no current", tree("  parameters: {nextOnFailure: {pluginRef: low-queue-filter}}\n"), []string{"parameters.current: a decision tree must have a current filter"}},
		{"both", tree("  parameters: {current: {pluginRef: low-queue-filter, decisionTree: {}}}\n"), []string{"parameters.current: both pluginRef and decisionTree are given"}},
		{"neither", tree("  parameters: {current: {}}\n"), []string{"parameters.current: either pluginRef or decisionTree must be given"}},
		{"unknown field", tree("  parameters: {current: {pluginref: low-queue-filter}, nextOnSucces: {}}\n"), []string{`unknown parameter of decision-tree-filter; did you mean "nextOnSuccess"?`}},
		{"unknown field in a node", tree("  parameters: {current: {plugin: low-queue-filter}}\n"), []string{`unknown field "plugin"`, "either pluginRef or"}},
		{"a field twice in a node", tree("  parameters: {current: {decisionTree: {current: {pluginRef: low-queue-filter}, CURRENT: {pluginRef: least-queue-filter}}}}\n"), []string{`parameters.current.decisionTree: "CURRENT" is the same field as "current"`}},
		{"nested without current", tree("  parameters: {current: {decisionTree: {nextOnSuccess: {pluginRef: low-queue-filter}}}}\n"), []string{"current.decisionTree: a decision tree must have a current filter"}},
		{"undefined", tree("  parameters: {current: {pluginRef: low-queue}}\n"), []string{`parameters.current.pluginRef: there is no plug-in "low-queue"; did you mean "low-queue-filter"?`}},
		{"no filter", tree("  parameters: {current: {pluginRef: queue-scorer}}\n"), []string{`plug-in "queue-scorer" is a scorer, and only filters may stand in a decision tree`}},
		{"itself", tree("  parameters: {current: {pluginRef: tree}}\n"), []string{`plug-in "tree" is this decision tree itself`}},
		{"declared below", head + "plugins:\n- type: decision-tree-filter\n  parameters: {current: {pluginRef: low-queue-filter}}\n" + leaves, []string{`plug-in "low-queue-filter" is declared below`}},
		{"an empty ref", tree("  parameters: {current: {pluginRef: ''}}\n"), []string{"parameters.current.pluginRef: is empty; name a plug-in"}},
		{"a ref that is no text", tree("  parameters: {current: {pluginRef: 5}}\n"), []string{"must be a text, not the number 5"}},
		{"a node that is no mapping", tree("  parameters: {current: low-queue-filter}\n"), []string{"must be a mapping of fields"}},
		{"a filter that has a fault of its own", head + "plugins:\n- {type: low-queue-filter, parameters: {threshold: x}}\n- type: decision-tree-filter\n  parameters: {current: {pluginRef: low-queue-filter}}\n", []string{"must be a whole number"}},
	} {
		t.Run(c.name, func(t *testing.T) { want{errs: c.errs}.run(t, c.text) })
	}
}

// Filters that only stand in a tree are not run again by the profile that is made
// where there is none.
func TestTreeLeavesAreNotInTheMadeProfile(t *testing.T) {
	l := mustLoad(t, head+"plugins:\n- type: low-queue-filter\n- type: least-queue-filter\n- type: decision-tree-filter\n  name: tree\n"+
		"  parameters: {current: {pluginRef: low-queue-filter}}\n")
	shaped("default: least-queue-filter tree | | max-score-picker(1)")(t, l)
}

// B116: integers of parameters stay integers, whatever their size or spelling.
func TestB116ParametersAreHandedOnAsTheyStand(t *testing.T) {
	for in, want := range map[string]string{
		"{lruCapacity: 31250, blockSize: 16, big: 9007199254740993}": `{"lruCapacity":31250,"blockSize":16,"big":9007199254740993}`,
		"{a: 123456789012345678901234567890}":                        `{"a":123456789012345678901234567890}`,
		"{a: 0x10, b: 0o17, c: 1_000, d: +5, e: -7}":                 `{"a":16,"b":15,"c":1000,"d":5,"e":-7}`,
		"{a: 1.50, b: 1e3, c: .5, d: -0.0}":                          `{"a":1.50,"b":1e3,"c":0.5,"d":-0.0}`,
		"{t: true, f: False, n: null, e: }":                          `{"t":true,"f":false,"n":null,"e":null}`,
		`{s: "1", u: ü<&>, q: "a\"b\n", d: 2020-01-01}`:              `{"s":"1","u":"ü<&>","q":"a\"b\n","d":"2020-01-01"}`,
		"{l: [1, [], {}], m: {b: 1, a: 2}, 5: x}":                    `{"l":[1,[],{}],"m":{"b":1,"a":2},"5":"x"}`,
		"{a: &x {b: 1}, c: *x}":                                      `{"a":{"b":1},"c":{"b":1}}`,
		"":                                                           "",
		"{}":                                                         "{}",
	} {
		_, s, err := load(head + "plugins:\n- type: queue-scorer\n  parameters: " + in + "\n")
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if d := cmp.Diff(want, s.got["queue-scorer"]); d != "" {
			t.Errorf("%s: %s", in, d)
		}
	}
}

func TestParametersThatCannotBeHandedOn(t *testing.T) {
	bomb := "{a: &a [x,x,x,x,x,x,x,x,x,x]"
	for _, next := range []string{"b", "c", "d", "e", "f"} {
		last := string(next[0] - 1)
		bomb += ", " + next + ": &" + next + " [" + strings.Repeat("*"+last+",", 10) + "]"
	}
	for in, want := range map[string]string{
		"{a: .nan}":          "plugins[0].parameters.a: must be a finite number",
		"{a: [1, -.inf]}":    "plugins[0].parameters.a[1]: must be a finite number",
		"{a: {b: 1, b: 2}}":  "plugins[0].parameters.a.b: is there twice",
		"{[1]: 2}":           "a field's name must be a text, not a list",
		"{a: !!binary aGk=}": "binary values",
		"&x {a: *x}":         "is nested more than",
		bomb + "}":           "values, aliases followed",
		strings.Repeat("[", 70) + strings.Repeat("]", 70): "must be a mapping",
	} {
		_, _, err := load(head + "plugins:\n- type: queue-scorer\n  parameters: " + in + "\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want %q", in, err, want)
		}
		if err != nil && strings.Count(err.Error(), "\n") > 3 {
			t.Errorf("%.60s: %d lines of faults", in, strings.Count(err.Error(), "\n"))
		}
	}
}

// Aliases that refer to aliases, wherever they may stand: each is one fault at once.
func TestAliasBombs(t *testing.T) {
	grow := func(item, of string) string { // of has %[1]s for a reference to the one before
		b := "a0: &a0 " + item + "\n"
		for i := 1; i <= 9; i++ {
			b += fmt.Sprintf("a%d: &a%d ", i, i) + fmt.Sprintf(of, fmt.Sprintf("*a%d", i-1)) + "\n"
		}
		return b
	}
	merges := grow("{x: 1}", "{<<: [%[1]s, %[1]s, %[1]s, %[1]s]}")
	trees := grow("{pluginRef: x}", "{decisionTree: {current: %[1]s, nextOnSuccess: %[1]s, nextOnFailure: %[1]s, nextOnSuccessOrFailure: %[1]s}}")
	lists := grow("[x]", "[%[1]s, %[1]s, %[1]s, %[1]s]")
	for name, text := range map[string]string{
		"merges":            merges + "plugins:\n- *a9\n",
		"sections":          lists + "dataLayer: {sources: *a9}\n",
		"tree":              trees + "plugins:\n- type: decision-tree-filter\n  parameters: {current: *a9}\n",
		"a cycle":           "dataLayer: &d {sources: *d}\n",
		"a merge of itself": "plugins:\n- &p {<<: *p}\n",
		"a tree in itself":  "plugins:\n- type: decision-tree-filter\n  parameters: {current: &c {decisionTree: {current: *c}}}\n",
	} {
		_, _, err := load(head + text)
		if err == nil || !strings.Contains(err.Error(), "values, aliases followed") && !strings.Contains(err.Error(), "is nested more than") {
			t.Errorf("%s: %.2000v", name, err)
		}
		if err != nil && strings.Count(err.Error(), "\n") > maxFaults {
			t.Errorf("%s: %d lines", name, strings.Count(err.Error(), "\n"))
		}
	}
}

// All faults are reported at once, in the order of the text, each with its place.
func TestAllFaultsAtOnce(t *testing.T) {
	_, _, err := load(file(t, "faults.yaml"))
	want := strings.TrimSpace(file(t, "faults.txt"))
	if err == nil {
		t.Fatal("loaded")
	}
	if d := cmp.Diff(want, err.Error()); d != "" {
		t.Error(d)
	}
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatalf("a %T is no Faults", err)
	}
	for _, f := range faults {
		if f.Line == 0 || f.Column == 0 || f.Source != "epp.yaml" {
			t.Errorf("a fault without a place: %+v", f)
		}
	}
}

// The effective configuration has everything and loads to the same again.
func TestEffectiveLoadsToTheSame(t *testing.T) {
	for _, name := range []string{"documented.yaml", "ten.yaml", "tree.yaml", "odd.yaml"} {
		first := mustLoad(t, file(t, name))
		second := mustLoad(t, string(first.Effective))
		if d := cmp.Diff(string(first.Effective), string(second.Effective)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		for i, p := range first.Config.Profiles {
			if a, b := shape(p), shape(second.Config.Profiles[i]); a != b {
				t.Errorf("%s: %s became %s", name, a, b)
			}
		}
		for i, p := range second.Plugins {
			if p.FilledIn || p.Name != first.Plugins[i].Name || string(p.Parameters) != string(first.Plugins[i].Parameters) {
				t.Errorf("%s: plug-in %+v became %+v", name, first.Plugins[i], p)
			}
		}
	}
}

func TestEffectiveGolden(t *testing.T) {
	got := mustLoad(t, file(t, "odd.yaml")).Effective
	if d := cmp.Diff(file(t, "odd.effective.yaml"), string(got)); d != "" {
		t.Error(d)
	}
}

func TestDefaultTextIsComplete(t *testing.T) {
	l := mustLoad(t, DefaultText)
	if len(l.Warnings)+len(l.Infos) != 0 {
		t.Errorf("notices: %s%s", notices(l.Warnings), notices(l.Infos))
	}
}

func TestEveryTypeIsDescribed(t *testing.T) {
	reg := BuiltIn()
	for _, name := range reg.Names() {
		ty, ok := reg.Type(name)
		if !ok || ty.Name != name || ty.Role == "" || !strings.HasSuffix(ty.Summary, ".") {
			t.Errorf("type %q: %+v", name, ty)
		}
		if _, _, later := reg.Later(name); later {
			t.Errorf("type %q is here and said to be not", name)
		}
		for _, p := range ty.Parameters {
			if p.Name == "" || !strings.HasSuffix(p.Summary, ".") {
				t.Errorf("parameter %q of %q has no description", p.Name, name)
			}
		}
	}
	if len(reg.Names()) < 9 {
		t.Errorf("types %v", reg.Names())
	}
}

func TestPluginsAreListed(t *testing.T) {
	l := mustLoad(t, head+"plugins:\n- type: low-queue-filter\n- type: queue-scorer\n  name: q\n")
	want := []Plugin{
		{Name: "low-queue-filter", Type: "low-queue-filter", Role: RoleFilter, Parameters: []byte(`{"threshold":128}`)},
		{Name: "q", Type: "queue-scorer", Role: RoleScorer, Service: "service-of-queue-scorer"},
		{Name: "max-score-picker", Type: "max-score-picker", Role: RolePicker, Parameters: []byte(`{"maxNumOfEndpoints":1}`), FilledIn: true},
		{Name: "single-profile-handler", Type: "single-profile-handler", Role: RoleHandler, FilledIn: true},
	}
	for i := range l.Plugins {
		l.Plugins[i].Summary = ""
	}
	if d := cmp.Diff(want, l.Plugins); d != "" {
		t.Error(d)
	}
}

func TestLoadWithoutScorers(t *testing.T) {
	if _, err := Load("x", nil, Deps{}); err == nil {
		t.Error("loaded without a way to resolve scorers")
	}
}

func TestTextTooLong(t *testing.T) {
	want{errs: []string{"at most 1048576 are read"}}.run(t, strings.Repeat("#", maxText+1))
}

func TestFiltersAreOfTheirTypes(t *testing.T) {
	l := mustLoad(t, file(t, "ten.yaml"))
	fs := l.Config.Profiles[0].Filters
	if _, ok := fs[0].(*filter.LowQueue); !ok {
		t.Errorf("%T", fs[0])
	}
	if _, ok := fs[3].(*filter.LeastKV); !ok {
		t.Errorf("%T", fs[3])
	}
}

// FuzzLoad: no text makes the loader panic or hang; what loads is complete, and its
// effective form loads to the same.
func FuzzLoad(f *testing.F) {
	for _, name := range []string{"documented.yaml", "ten.yaml", "tree.yaml", "odd.yaml", "faults.yaml"} {
		f.Add(file(f, name))
	}
	f.Add(DefaultText)
	f.Add(head + "plugins:\n- &a {type: queue-scorer, parameters: &p {x: *p}}\n- <<: *a\n  name: b\n")
	f.Add(head + "plugins:\n- {type: by-label, parameters: {label: \"\\x7f\\N\\L\", validValues: [!!str yes]}}\n- {type: acme-odd, parameters: {a: !!bool true}}\n")
	f.Add(`{"apiVersion":"llm-d.ai/v1alpha1","kind":"EndpointPickerConfig","plugins":[{"type":"queue-scorer"}]}`)
	f.Add(staged("- {type: disagg-profile-handler, parameters: {profiles: {decode: decode, fallback: prefill}, stageOrder: Prefill_First, onPrefillFailure: [RetryOther, Fail], prefillBudget: 5s}}\n"))
	f.Add(staged("- {type: disagg-profile-handler, parameters: {decodeProfile: decode, deciderPluginName: d, connector: sglang}}\n- {name: d, type: prefix-based-pd-decider, parameters: {nonCachedTokens: 9}}\n"))
	f.Add(staged("- {type: pd-profile-handler, parameters: {threshold: 10, hashBlockSize: 5, primaryPort: 8000, prefixPluginName: x}}\n"))
	f.Fuzz(func(t *testing.T, text string) {
		l, _, err := load(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		if l.Config.Handler == nil || len(l.Config.Profiles) == 0 {
			t.Fatal("incomplete configuration")
		}
		for _, p := range l.Config.Profiles {
			if p.Picker == nil || p.Name == "" {
				t.Fatal("incomplete profile")
			}
			for _, s := range p.Scorers {
				if s.Weight-s.Weight != 0 {
					t.Fatalf("weight %v", s.Weight)
				}
			}
		}
		again, _, err := load(string(l.Effective))
		if err != nil {
			t.Fatalf("effective form does not load: %v\n%s", err, l.Effective)
		}
		if d := cmp.Diff(string(l.Effective), string(again.Effective)); d != "" {
			t.Fatal(d)
		}
	})
}

// A long text of misspelt names is refused soon: after a while without hints.
func TestHintsEnd(t *testing.T) {
	const n = 2000
	var plugins, refs strings.Builder
	for i := range n {
		fmt.Fprintf(&plugins, "- {type: low-queue-filter, name: name-%d}\n", i)
		fmt.Fprintf(&refs, "  - pluginRef: nome-%d\n", i)
	}
	_, _, err := load(head + "plugins:\n" + plugins.String() + profileOf(refs.String()))
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != maxFaults+1 {
		t.Fatalf("%d faults, want %d and one that counts the rest", len(faults), maxFaults)
	}
	for i, f := range faults[:maxFaults] {
		hinted := strings.Contains(f.Message, fmt.Sprintf("did you mean \"name-%d\"?", i))
		if want := (i+1)*n <= maxCompared; want && !hinted {
			t.Fatalf("no hint: %s", f.Message)
		}
	}
	r := &report{compared: maxCompared}
	if hint := r.didYouMean("nome-1", []string{"name-1"}); hint != "" {
		t.Errorf("a hint beyond the limit: %s", hint)
	}
}

// What is filled in for one profile is not there for the rest of the text to name.
func TestFilledInIsNotDeclared(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{
			"a scorer, in a later profile",
			"plugins:\n- type: prefix-cache-affinity-filter\nschedulingProfiles:\n- name: a\n  plugins: [{pluginRef: prefix-cache-affinity-filter}]\n" +
				"- name: b\n  plugins: [{pluginRef: prefix-cache-scorer}]\n",
			`schedulingProfiles[1].plugins[0].pluginRef: there is no plug-in "prefix-cache-scorer"; it is a plug-in type, which must be declared in plugins first`,
		},
		{
			"a picker, in a later profile",
			"plugins:\n- type: queue-scorer\nschedulingProfiles:\n- name: a\n  plugins: [{pluginRef: queue-scorer}]\n" +
				"- name: b\n  plugins: [{pluginRef: max-score-picker}]\n",
			`schedulingProfiles[1].plugins[0].pluginRef: there is no plug-in "max-score-picker"`,
		},
		{
			"a handler, in a section",
			"plugins:\n- type: queue-scorer\nparser: {pluginRef: single-profile-handler}\n",
			`parser.pluginRef: there is no plug-in "single-profile-handler"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := load(head + c.text)
			if err == nil {
				t.Fatal("it loads")
			}
			contains(t, "error", err.Error(), []string{c.want})
		})
	}
}
