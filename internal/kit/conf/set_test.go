package conf_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

func TestSet(t *testing.T) {
	tests := []struct {
		name string
		sets []string
		want func(*settings)
	}{
		{"a string", []string{"pool=blue"}, func(s *settings) { s.Pool = "blue" }},
		{"the last one wins", []string{"pool=blue", "pool=green"}, func(s *settings) { s.Pool = "green" }},
		{"nested", []string{"listen.address=127.0.0.1:0"}, func(s *settings) { s.Listen.Address = "127.0.0.1:0" }},
		{"a string with no value is empty", []string{"pool="}, func(s *settings) { s.Pool = "" }},
		{"a string that YAML would read otherwise", []string{"listen.address=[::1]:9100"}, func(s *settings) { s.Listen.Address = "[::1]:9100" }},
		{"a string that YAML would cut", []string{"pool=a #b: {"}, func(s *settings) { s.Pool = "a #b: {" }},
		{"a quoted string", []string{`pool="a\tb"`}, func(s *settings) { s.Pool = "a\tb" }},
		{"a value with =", []string{"pool=a=b"}, func(s *settings) { s.Pool = "a=b" }},
		{"a secret", []string{"pass=*hunter2"}, func(s *settings) { s.Pass = "*hunter2" }},
		{"a duration", []string{"timeout=2s"}, func(s *settings) { s.Timeout = conf.Duration(2 * time.Second) }},
		{"numbers and truth", []string{"count=3", "flag=true", "ratio=0.5"}, func(s *settings) { s.Count, s.Flag, s.Ratio = 3, true, 0.5 }},
		{"a list", []string{"names=[x, y]"}, func(s *settings) { s.Names = []string{"x", "y"} }},
		{"a list, emptied", []string{"names=[]"}, func(s *settings) { s.Names = []string{} }},
		{"a list of sections", []string{"targets=[{target: a:1}, {timeout: 1s}]"}, func(s *settings) {
			s.Targets = []scorer{{Target: "a:1"}, {Timeout: conf.Duration(time.Second)}}
		}},
		{"an entry of a map, merged", []string{"scorers.kv.timeout=5s"}, func(s *settings) {
			s.Scorers = map[string]scorer{"kv": {"scorer-kv:9100", conf.Duration(5 * time.Second)}}
		}},
		{"a key with dots, in a map of strings", []string{"labels.app.kubernetes.io/name=x"}, func(s *settings) {
			s.Labels = map[string]string{"app.kubernetes.io/name": "x"}
		}},
		{"through a pointer", []string{"deep.max=4"}, func(s *settings) { s.Deep = &listen{Max: 4} }},
		{"inlined", []string{"log.level=debug"}, func(s *settings) { s.Log.Level = "debug" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want, got := defaults(), defaults()
			tt.want(&want)
			if err := conf.Load("", tt.sets, &got); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got, exact()...); d != "" {
				t.Errorf("settings (-want +got):\n%s", d)
			}
		})
	}
}

func TestSetFaults(t *testing.T) {
	tests := []struct{ name, set, want string }{
		{"no =", "pool", "--set wants KEY=VALUE, such as pool=blue, got pool"},
		{"no key", "=blue", "--set wants KEY=VALUE, such as pool=blue, got "},
		{"unknown key", "listen.adress=x", "--set listen.adress: unknown key; did you mean address?"},
		{"unknown section", "lisen.address=x", "--set lisen: unknown key; did you mean listen?"},
		{"below a string", "pool.name=x", "--set pool: wants a string, got a map"},
		{"below a list", "targets.0.target=x", "--set targets: wants a list, got a map"},
		{"wrong type", "count=many", `--set count: wants a whole number, got the string "many"`},
		{"nothing where a number is wanted", "count=", "--set count: wants a whole number, got nothing; write a value or remove the key"},
		{"no unit", "timeout=50", "--set timeout: wants a duration with a unit, got 50; write 50ms or 50s"},
		{"not YAML", "names=[a", "--set names: not YAML: did not find expected ',' or ']'"},
		{"in a value", "targets=[{tagret: x}]", "--set targets[0].tagret: unknown key; did you mean target?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := defaults()
			err := conf.Load("", []string{tt.set}, &s)
			if err == nil || err.Error() != tt.want {
				t.Errorf("Load = %v, want %s", err, tt.want)
			}
		})
	}
}

func TestSetAndFileFaultsTogether(t *testing.T) {
	s := defaults()
	err := conf.Load("", []string{"pol=x", "count=x"}, &s)
	if n := len(strings.Split(err.Error(), "\n")); n != 2 {
		t.Errorf("%d faults, want both: %v", n, err)
	}
}
