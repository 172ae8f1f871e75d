package epconfig

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// telling serves every type and says of its parameters what it is told to.
type telling struct{ says string }

func (s *telling) Types() []string { return []string{"acme"} }

func (s *telling) Resolve(name, _ string, _ []byte) (service string, ask any, failClosed bool, warnings []string, err error) {
	return "acme-service", asked{name, s.says}, false, nil, nil
}

// What a scorer says that parameters come to takes the place of what is given, if it can
// be written down; otherwise it is said that they are as given.
func TestWhatScorersTell(t *testing.T) {
	for name, c := range map[string]struct {
		given, says, want string
		untold            bool
	}{
		"defaults":                 {"{b: 1}", `{"a":"on","b":1}`, `{"a":"on","b":1}`, false},
		"none are given":           {"", `{"a":[1,2.50,null]}`, `{"a":[1,2.50,null]}`, false},
		"there are none":           {"", "{}", "", false},
		"none, and an empty one":   {"{}", "{}", "{}", false},
		"nothing":                  {"{b: 1}", "", `{"b":1}`, true},
		"a list":                   {"{b: 1}", "[1]", `{"b":1}`, true},
		"no JSON":                  {"{b: 1}", "{b: 1}", `{"b":1}`, true},
		"a key twice":              {"{b: 1}", `{"a":1,"a":2}`, `{"b":1}`, true},
		"what YAML has no way for": {"{b: 1}", `{"a":"\ud800"}`, `{"b":1}`, true},
		"letters of a control set": {"{b: 1}", "{\"\\u007f\":\"\u0085\u009f\u2028\ufeff\"}", "{\"\u007f\":\"\u0085\u009f\\u2028\ufeff\"}", false},
		"too deep":                 {"", `{"a":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + "}", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			text := head + "plugins:\n- type: acme\n  parameters: " + c.given + "\n"
			l, err := Load("epp.yaml", []byte(text), Deps{Scorers: &telling{says: c.says}})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, string(l.Plugins[0].Parameters)); d != "" {
				t.Error(d)
			}
			said := strings.Contains(notices(l.Infos), `are shown as they are given: the scorer of "acme" did not say what defaults there are`)
			commented := strings.Contains(string(l.Effective), "type: acme # its scorer did not say what defaults there are\n")
			if said != c.untold || commented != c.untold {
				t.Errorf("said %t, commented %t, want %t:\n%s%s", said, commented, c.untold, notices(l.Infos), l.Effective)
			}
			mute, err := Load("epp.yaml", []byte(text), Deps{Scorers: &telling{}})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(mute.Given), string(l.Given)); d != "" || strings.Contains(string(l.Given), "#") {
				t.Errorf("what is given depends on what the scorer says: %s", d)
			}
			again, err := Load("epp.yaml", l.Effective, Deps{Scorers: &telling{says: c.says}})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(l.Effective), string(again.Effective)); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(l.Config.Profiles[0].Scorers, again.Config.Profiles[0].Scorers, cmp.AllowUnexported(asked{})); d != "" {
				t.Error(d)
			}
		})
	}
}

var _ Scorers = (*telling)(nil)

// What YAML refuses, or reads as the end of a line, comes through in names, in texts and
// in keys, of the router's plug-ins and of scorers'.
func TestLettersThatYAMLEscapes(t *testing.T) {
	const odd = `\x7f\x81\N\L\P\uFEFF\uFFFE\uFFFF\0\e\t\n é 😀`
	text := head + `plugins:
- {type: by-label, name: "by` + odd + `", parameters: {label: "l` + odd + `", validValues: ["v` + odd + `"]}}
- {type: label-selector-filter, parameters: {matchLabels: {"k` + odd + `": "w` + odd + `"}}}
- {type: acme-odd, parameters: {"p` + odd + `": "q` + odd + `"}}
`
	l, s, err := load(text)
	if err != nil {
		t.Fatal(err)
	}
	again, s2, err := load(string(l.Effective))
	if err != nil {
		t.Fatalf("%v\n%s", err, l.Effective)
	}
	if d := cmp.Diff(string(l.Effective), string(again.Effective)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(l.Plugins, again.Plugins[:len(l.Plugins)], cmpopts.IgnoreFields(Plugin{}, "FilledIn")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(s.got, s2.got); d != "" {
		t.Error(d)
	}
	var values map[string]string
	want := "\x7f\u0081\u0085\u2028\u2029\ufeff\ufffe\uffff\x00\x1b\t\n é 😀"
	if err := json.Unmarshal([]byte(s2.got["acme-odd"]), &values); err != nil || values["p"+want] != "q"+want {
		t.Errorf("the scorer is given %q, error %v", values, err)
	}
}

// Whoever is no Teller does not tell.
func TestAskedThatIsNoTeller(t *testing.T) {
	l := &loader{report: &report{}}
	in := &instance{name: "a", params: []byte(`{"b":1}`), scorer: route.Scorer{Service: "s", Asked: 5}}
	l.tell(in, nil, "")
	if !in.untold || string(in.params) != `{"b":1}` {
		t.Errorf("%+v", in)
	}
}
