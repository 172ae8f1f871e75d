package conf_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

// settings has one of everything that a configuration may hold.
type settings struct {
	Pool    string               `yaml:"pool"`
	Listen  listen               `yaml:"listen"`
	Timeout conf.Duration        `yaml:"timeout"`
	Wait    time.Duration        `yaml:"wait"`
	Pass    conf.Secret          `yaml:"pass"`
	Scorers map[string]scorer    `yaml:"scorers"`
	Labels  map[string]string    `yaml:"labels"`
	Names   []string             `yaml:"names"`
	Targets []scorer             `yaml:"targets"`
	Count   int8                 `yaml:"count"`
	Size    uint16               `yaml:"size"`
	Ratio   float64              `yaml:"ratio"`
	Flag    bool                 `yaml:"flag"`
	Maybe   *bool                `yaml:"maybe"`
	Deep    *listen              `yaml:"deep"`
	Net     netip.Prefix         `yaml:"net"`
	Policy  policy               `yaml:"policy"`
	Free    any                  `yaml:"free"`
	Raw     yaml.Node            `yaml:"raw"`
	Lists   map[string][]float32 `yaml:"lists"`
	NoTag   string
	Hidden  string `yaml:"-"`
	common  `yaml:",inline"`
}

type listen struct {
	Address string `yaml:"address"`
	Max     int    `yaml:"max"`
}

type scorer struct {
	Target  string        `yaml:"target"`
	Timeout conf.Duration `yaml:"timeout"`
}

type common struct {
	Log struct {
		Level string `yaml:"level"`
	} `yaml:"log"`
}

// policy unmarshals itself.
type policy string

func (p *policy) UnmarshalYAML(n *yaml.Node) error {
	if n.Value != "Fail" && n.Value != "Ignore" {
		return fmt.Errorf("must be Fail or Ignore, not %q", n.Value)
	}
	*p = policy(n.Value)
	return nil
}

func defaults() settings {
	return settings{
		Pool:    "default",
		Listen:  listen{Address: ":9100", Max: 10},
		Scorers: map[string]scorer{"kv": {Target: "scorer-kv:9100", Timeout: conf.Duration(time.Second)}},
		Names:   []string{"a", "b"},
	}
}

func exact() []cmp.Option {
	return []cmp.Option{
		cmp.AllowUnexported(settings{}),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	}
}

func TestParse(t *testing.T) {
	yes := true
	tests := []struct {
		name string
		text string
		want func(*settings)
	}{
		{"nothing keeps the defaults", "", func(*settings) {}},
		{"only comments", "# pool: blue\n---\n", func(*settings) {}},
		{"a section without lines keeps its defaults", "listen:\n  # max: 3\n", func(*settings) {}},
		{"sections are merged", "listen: {max: 3}", func(s *settings) { s.Listen.Max = 3 }},
		{"lists are replaced", "names: [c]", func(s *settings) { s.Names = []string{"c"} }},
		{"lists are emptied", "names:", func(s *settings) { s.Names = nil }},
		{"entries of maps are merged too", "scorers: {kv: {timeout: 2s}, queue: {target: q:1}}", func(s *settings) {
			s.Scorers = map[string]scorer{
				"kv":    {Target: "scorer-kv:9100", Timeout: conf.Duration(2 * time.Second)},
				"queue": {Target: "q:1"},
			}
		}},
		{"maps are emptied", "scorers:", func(s *settings) { s.Scorers = nil }},
		{"durations", "timeout: 50ms\nwait: 1m30s", func(s *settings) {
			s.Timeout, s.Wait = conf.Duration(50*time.Millisecond), 90*time.Second
		}},
		{"zero needs no unit", "timeout: 0", func(s *settings) { s.Timeout = 0 }},
		{"numbers", "count: -128\nsize: 0xFFFF\nratio: 1", func(s *settings) { s.Count, s.Size, s.Ratio = -128, 65535, 1 }},
		{"a number where a string is wanted, as written", "pool: 0123\npass: 1e3", func(s *settings) { s.Pool, s.Pass = "0123", "1e3" }},
		{"truth", "flag: true\nmaybe: true", func(s *settings) { s.Flag, s.Maybe = true, &yes }},
		{"a pointer to a section", "deep: {max: 1}", func(s *settings) { s.Deep = &listen{Max: 1} }},
		{"a pointer without a value", "deep:", func(s *settings) { s.Deep = nil }},
		{"texts and own ways", "net: 10.0.0.0/8\npolicy: Fail", func(s *settings) {
			s.Net, s.Policy = netip.MustParsePrefix("10.0.0.0/8"), "Fail"
		}},
		{"anything", "free: {a: [1, x]}", func(s *settings) { s.Free = map[string]any{"a": []any{1, "x"}} }},
		{"inlined", "log: {level: debug}", func(s *settings) { s.Log.Level = "debug" }},
		{"a field without a tag", "notag: x", func(s *settings) { s.NoTag = "x" }},
		{"aliases and merge keys", "targets:\n- &one {target: a:1, timeout: 1s}\n- <<: *one\n  target: b:1\n- *one", func(s *settings) {
			s.Targets = []scorer{
				{"a:1", conf.Duration(time.Second)}, {"b:1", conf.Duration(time.Second)}, {"a:1", conf.Duration(time.Second)},
			}
		}},
		{"a list of merged maps: the first wins", "targets:\n- &one {target: a:1}\n- &two {target: b:1, timeout: 2s}\n- <<: [*one, *two]", func(s *settings) {
			s.Targets = []scorer{{Target: "a:1"}, {"b:1", conf.Duration(2 * time.Second)}, {"a:1", conf.Duration(2 * time.Second)}}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want, got := defaults(), defaults()
			tt.want(&want)
			if err := conf.Parse("x.yaml", []byte(tt.text), &got); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got, exact()...); d != "" {
				t.Errorf("settings (-want +got):\n%s", d)
			}
		})
	}
}

func TestParseKeepsRawNodes(t *testing.T) {
	var s settings
	if err := conf.Parse("x.yaml", []byte("raw: {a: 1}"), &s); err != nil {
		t.Fatal(err)
	}
	if s.Raw.Kind != yaml.MappingNode || s.Raw.Content[0].Value != "a" {
		t.Errorf("raw = %+v, want the mapping", s.Raw)
	}
}

// What is shared between two configurations made from the same defaults must not be written to.
func TestParseLeavesSharedDefaultsAlone(t *testing.T) {
	no := false
	shared := settings{Maybe: &no, Labels: map[string]string{"a": "1"}, Deep: &listen{Max: 1}}
	s := shared
	if err := conf.Parse("x.yaml", []byte("maybe: true\nlabels: {b: '2'}\ndeep: {max: 2}"), &s); err != nil {
		t.Fatal(err)
	}
	if no || len(shared.Labels) != 1 || shared.Deep.Max != 1 {
		t.Errorf("the defaults became %v %v %v", no, shared.Labels, shared.Deep)
	}
	if !*s.Maybe || len(s.Labels) != 2 || s.Deep.Max != 2 {
		t.Errorf("the configuration became %v %v %v", *s.Maybe, s.Labels, s.Deep)
	}
}

func TestParseFaults(t *testing.T) {
	tests := []struct {
		name string
		text string
		want []string
	}{
		{"unknown key", "pol: blue", []string{"x.yaml:1:1: pol: unknown key; did you mean pool?"}},
		{"unknown key in another case", "listen:\n  Address: x", []string{"x.yaml:2:3: listen.Address: unknown key; did you mean address?"}},
		{"unknown key, inlined section", "log: {levvel: debug}", []string{"x.yaml:1:7: log.levvel: unknown key; did you mean level?"}},
		{"unknown key, nothing like it", "listen: {zzzzzzz: 1}", []string{"x.yaml:1:10: listen.zzzzzzz: unknown key; known here: address, max"}},
		{"hidden field", "Hidden: x", []string{"x.yaml:1:1: Hidden: unknown key; known here: count, deep, flag, free, labels, listen, lists, log, maybe, names, net, notag, pass, policy, pool, ratio, raw, scorers, size, targets, timeout, wait"}},
		{"unknown key in a map's entry", "scorers: {kv: {tagret: x}}", []string{"x.yaml:1:16: scorers.kv.tagret: unknown key; did you mean target?"}},
		{"set twice", "pool: a\nflag: true\npool: b", []string{"x.yaml:3:1: pool: set twice; it is set in line 1 already"}},
		{"a list for a string", "pool: [a]", []string{"x.yaml:1:7: pool: wants a string, got a list"}},
		{"a map for a string", "pool: {a: b}", []string{"x.yaml:1:7: pool: wants a string, got a map"}},
		{"nothing for a string", "pool:", []string{"x.yaml:1:6: pool: wants a string, got nothing; write a value or remove the key"}},
		{"a string for a section", "listen: :9100", []string{`x.yaml:1:9: listen: wants a map of settings, got the string ":9100"`}},
		{"a map for a list", "names: {a: b}", []string{"x.yaml:1:8: names: wants a list, got a map"}},
		{"a string for a map", "labels: a", []string{`x.yaml:1:9: labels: wants a map, got the string "a"`}},
		{"in a list", "names: [a, [b]]", []string{"x.yaml:1:12: names[1]: wants a string, got a list"}},
		{"in a list in a map", "lists: {a: [1, x]}", []string{`x.yaml:1:16: lists.a[1]: wants a number, got the string "x"`}},
		{"yes is not true", "flag: yes", []string{`x.yaml:1:7: flag: wants true or false, got the string "yes"`}},
		{"a quoted number", "count: '1'", []string{`x.yaml:1:8: count: wants a whole number, got the string "1"`}},
		{"a fraction", "count: 1.5", []string{"x.yaml:1:8: count: wants a whole number, got the number 1.5"}},
		{"too large", "count: 128", []string{"x.yaml:1:8: count: wants a whole number from -128 to 127, got 128"}},
		{"too large for anything", "count: 99999999999999999999", []string{"x.yaml:1:8: count: wants a whole number, got the number 99999999999999999999"}},
		{"negative", "size: -1", []string{"x.yaml:1:7: size: wants a whole number from 0 to 65535, got -1"}},
		{"not a number", "ratio: .nan", []string{"x.yaml:1:8: ratio: wants a number, got the number .nan"}},
		{"endless", "ratio: .inf", []string{"x.yaml:1:8: ratio: wants a number, got the number .inf"}},
		{"a duration without a unit", "timeout: 50", []string{"x.yaml:1:10: timeout: wants a duration with a unit, got 50; write 50ms or 50s"}},
		{"a time.Duration without a unit", "wait: 50", []string{"x.yaml:1:7: wait: wants a duration with a unit, got 50; write 50ms or 50s"}},
		{"a duration in days", "timeout: 2d", []string{`x.yaml:1:10: timeout: wants a duration such as 50ms, 2s or 1m30s, got "2d"`}},
		{"a list for a duration", "timeout: [1s]", []string{"x.yaml:1:10: timeout: wants a duration such as 50ms, 2s or 1m30s, got a list"}},
		{"a text that is refused", "net: 10.0.0.0", []string{`x.yaml:1:6: net: netip.ParsePrefix("10.0.0.0"): no '/'`}},
		{"own way that refuses", "policy: Maybe", []string{`x.yaml:1:9: policy: must be Fail or Ignore, not "Maybe"`}},
		{"a secret is not shown", "pass: [hunter2]", []string{"x.yaml:1:7: pass: wants a string, got a list"}},
		{"not a map", "- a", []string{"x.yaml:1:1: wants a map of settings, got a list"}},
		{"a key that is no word", "? [a]\n: b", []string{"x.yaml:1:3: a key must be a word, got a list"}},
		{"a bad merge", "listen: {<<: 3}", []string{"x.yaml:1:14: listen: << wants a map to merge, got the number 3"}},
		{"two documents", "pool: a\n---\npool: b", []string{"x.yaml:3:1: a second YAML document; a configuration is one, so remove the line --- above it"}},
		{"syntax", "pool: a\n  flag: true", []string{"x.yaml:2: not YAML: mapping values are not allowed in this context"}},
		{"tabs", "listen:\n\tmax: 1", []string{"x.yaml:2: not YAML: found character that cannot start any token"}},
		{"unknown anchor", "pool: *a", []string{"x.yaml: not YAML: unknown anchor 'a' referenced"}},
		{"all at once, in order", "pol: x\ncount: x\nlisten: {max: y}\ntimeout: 5", []string{
			"x.yaml:1:1: pol: unknown key; did you mean pool?",
			`x.yaml:2:8: count: wants a whole number, got the string "x"`,
			`x.yaml:3:15: listen.max: wants a whole number, got the string "y"`,
			"x.yaml:4:10: timeout: wants a duration with a unit, got 5; write 5ms or 5s",
		}},
		{"a long value is cut", "flag: " + strings.Repeat("x", 100), []string{`x.yaml:1:7: flag: wants true or false, got the string "` + strings.Repeat("x", 40) + `…"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := defaults()
			err := conf.Parse("x.yaml", []byte(tt.text), &s)
			if err == nil {
				t.Fatalf("no error, settings = %+v", s)
			}
			if d := cmp.Diff(tt.want, strings.Split(err.Error(), "\n")); d != "" {
				t.Errorf("faults (-want +got):\n%s", d)
			}
		})
	}
}

func TestParseBoundsAliases(t *testing.T) {
	var b strings.Builder
	b.WriteString("free: 1\nlists:\n  a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n")
	b.WriteString("targets:\n")
	b.WriteString("- &t {target: a:1, timeout: 1s}\n")
	for range 200_000 {
		b.WriteString("- *t\n")
	}
	var s settings
	err := conf.Parse("x.yaml", []byte(b.String()), &s)
	if err == nil || !strings.Contains(err.Error(), "too much nesting or too many values") || strings.Contains(err.Error(), "\n") {
		t.Errorf("Parse = %.200v, want one fault about too many values", err)
	}
	if err := conf.Parse("x.yaml", []byte("labels: &a {b: *a}"), &s); err == nil {
		t.Error("a map that contains itself was accepted")
	}
	for _, text := range []string{"listen: &a {<<: *a}", "listen: &a {<<: [*a, *a, *a, *a]}"} {
		err := conf.Parse("x.yaml", []byte(text), &s)
		if err == nil || !strings.Contains(err.Error(), "too much nesting") || strings.Contains(err.Error(), "\n") {
			t.Errorf("a map that merges itself: %v, want one fault", err)
		}
	}
}

func TestParseManyFaults(t *testing.T) {
	text := strings.Repeat("- 1\n", 100)
	var s struct {
		Flags []bool `yaml:"flags"`
	}
	err := conf.Parse("x.yaml", []byte("flags:\n"+text), &s)
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 31 || lines[30] != "and 70 more faults" {
		t.Errorf("%d lines, the last is %q; want 30 and the number of the rest", len(lines), lines[len(lines)-1])
	}
}

// checked is a configuration that validates.
type checked struct {
	Pool    string            `yaml:"pool"`
	Count   int               `yaml:"count"`
	Listen  listen            `yaml:"listen"`
	Scorers map[string]scorer `yaml:"scorers"`
}

func (c *checked) Validate() error {
	var errs []error
	if c.Pool == "" {
		errs = append(errs, errors.New("pool: must not be empty"))
	}
	if c.Count < 1 {
		errs = append(errs, errors.New("count: must be at least 1"))
	}
	var inner error
	if c.Listen.Max < 1 {
		inner = errors.Join(errors.New("max: must be at least 1"), errors.New("address: must be set"))
	}
	errs = append(errs, conf.Prefix("listen", inner))
	for name, s := range c.Scorers {
		if s.Target == "" {
			errs = append(errs, fmt.Errorf("scorers.%s.target: must be set", name))
		}
	}
	if c.Count == 13 {
		errs = append(errs, errors.New("this will not do: 13 is unlucky"))
	}
	return errors.Join(errs...)
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name string
		text string
		sets []string
		want []string
	}{
		{"a key of the file", "pool: ''\ncount: 1", nil, []string{"FILE:1:7: pool: must not be empty"}},
		{"a key of the defaults", "count: 0", nil, []string{"FILE: pool: must not be empty", "FILE:1:8: count: must be at least 1"}},
		{"a key of an override", "pool: a\ncount: 1", []string{"count=0"}, []string{"--set count: must be at least 1"}},
		{"the section stands for a missing key", "pool: a\ncount: 1\nscorers:\n  kv: {timeout: 1s}", nil,
			[]string{"FILE:4:7: scorers.kv.target: must be set"}},
		{"prefixed faults", "pool: a\ncount: 1\nlisten:\n  max: 0", nil,
			[]string{"FILE:4:8: listen.max: must be at least 1", "FILE:4:3: listen.address: must be set"}},
		{"a consequence is not reported", "pool: [a]\ncount: 0", nil,
			[]string{"FILE:1:7: pool: wants a string, got a list", "FILE:2:8: count: must be at least 1"}},
		{"a sentence without a key", "pool: a\ncount: 13", nil, []string{"FILE: this will not do: 13 is unlucky"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.yaml")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			c := checked{Listen: listen{Max: 1}}
			err := conf.Load(file, tt.sets, &c)
			if err == nil {
				t.Fatal("no error")
			}
			got := strings.ReplaceAll(err.Error(), file, "FILE")
			if d := cmp.Diff(tt.want, strings.Split(got, "\n")); d != "" {
				t.Errorf("faults (-want +got):\n%s", d)
			}
			if f, ok := errors.AsType[*conf.Fault](err); !ok || f.Text == "" {
				t.Errorf("the error holds %+v, want a Fault", f)
			}
		})
	}
}

func TestLoadUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, 5<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, file, want string }{
		{"absent", filepath.Join(dir, "none.yaml"), "no such file or directory; check the path given with --config"},
		{"a directory", dir, "is a directory; name a file in it"},
		{"too large", large, "larger than 4 MiB, which no configuration is; check the path given with --config"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s settings
			err := conf.Load(tt.file, nil, &s)
			if want := tt.file + ": " + tt.want; err == nil || err.Error() != want {
				t.Errorf("Load = %v, want %s", err, want)
			}
		})
	}
}

func TestLoadWantsAPointer(t *testing.T) {
	if err := conf.Load("", nil, settings{}); err == nil {
		t.Error("a configuration that cannot be written to was accepted")
	}
}
