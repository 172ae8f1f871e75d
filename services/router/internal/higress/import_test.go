package higress

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/redis"
)

var update = flag.Bool("update", false, "write the golden files")

// What each policy comes to, with all that is told.
func TestPoliciesComeTo(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !Is(text) {
				t.Error("it is not known as one of Higress's")
			}
			in, err := Import(text)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, n := range in.Warnings {
				fmt.Fprintf(&b, "warning: %d:%d: %s: %s\n", n.Line, n.Column, n.Path, n.Message)
			}
			for _, n := range in.Infos {
				fmt.Fprintf(&b, "note: %d:%d: %s: %s\n", n.Line, n.Column, n.Path, n.Message)
			}
			if in.Redis != nil {
				fmt.Fprintf(&b, "redis: %s user %q password %v (%d bytes) database %d timeout %v budget %v\n", in.Redis.Address, in.Redis.Username, in.Redis.Password, len(in.Redis.Password), in.Redis.Database, in.Redis.Timeout, in.Redis.Budget)
				if err := in.Redis.Validate(); err != nil {
					t.Errorf("its settings of redis: %v", err)
				}
			}
			fmt.Fprintf(&b, "prefixes: %v\n%s", in.PrefixTTL, in.Text)
			if strings.Contains(b.String(), "123456") {
				t.Error("the password is told")
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), b.String()); d != "" {
				t.Error(d)
			}
		})
	}
}

const where = "serviceFQDN: r.example, servicePort: 6379, username: default"

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string // one per fault
	}{
		{"C2 lb_type x", "{lb_type: x, lb_policy: least_busy, lb_config: {}}", []string{"1:11: lb_type: x is not supported; it must be endpoint"}},
		{"lb_type cluster", "{lb_type: cluster, lb_policy: cluster_metrics, lb_config: {mode: LeastBusy}}", []string{"cluster chooses among services"}},
		{"a merge of what is no mapping", "{lb_policy: least_busy, lb_config: {<<: 5}}", []string{"1:37: lb_config.<<: merges what is no mapping; write <<: *NAME"}},
		{"a field that is merged in", "{lb_policy: least_busy, lb_config: {<<: {criticalModel: [a]}}}", []string{"lb_config.criticalModel: least_busy has no such field; did you mean criticalModels?"}},
		{"a merge of itself", "{lb_policy: least_busy, lb_config: &a {<<: *a}}", []string{"lb_config.<<: merges more than 1000 mappings, or more than 64 deep"}},
		{"merges without end", "{<<: &a {<<: [*a, *a]}, lb_policy: least_busy}", []string{"<<: merges more than"}},
		{"cluster policies", "{lb_policy: cluster_hash, lb_config: {}}", []string{"cluster_hash chooses among services"}},
		{"no policy", "{lb_config: {}}", []string{"lb_policy: is missing; it is one of global_least_request, "}},
		{"an unknown policy", "{lb_policy: lest_busy, lb_config: {}}", []string{"lest_busy is not supported; did you mean least_busy?"}},
		{"C5 no serviceFQDN", "{lb_policy: global_least_request, lb_config: {servicePort: 1}}", []string{"lb_config.serviceFQDN: is missing"}},
		{"C5 port 0", "{lb_policy: prefix_cache, lb_config: {serviceFQDN: r, servicePort: 0}}", []string{"lb_config.servicePort: must be the port of Redis, 1 to 65535"}},
		{"a port that is none", "{lb_policy: prefix_cache, lb_config: {serviceFQDN: r, servicePort: x}}", []string{`servicePort: must be a whole number, not "x"`, "servicePort: must be the port"}},
		{"no lb_config", "{lb_policy: prefix_cache}", []string{"lb_config.serviceFQDN: is missing"}},
		{"negative times", "{lb_policy: prefix_cache, lb_config: {" + where + ", timeout: -1, redisKeyTTL: -5, database: -1}}",
			[]string{"timeout: must be at least 0, not -1", "redisKeyTTL: must be at least 0, not -5", "database: must be at least 0, not -1"}},
		{"invented keys", "{lb_policy: least_busy, lb_config: {criticalModels: [a], metricsPath: /m, unhealthyThreshold: 3}}",
			[]string{"metricsPath: least_busy has no such field; the metrics-collector scrapes", "unhealthyThreshold: least_busy has no such field; endpoints that fail are taken out"}},
		{"a mistyped key", "{lb_policy: prefix_cache, lb_config: {" + where + ", redisKeyTtl: 60}}", []string{"redisKeyTtl: prefix_cache has no such field; did you mean redisKeyTTL?"}},
		{"a key of another policy", "{lb_policy: global_least_request, lb_config: {" + where + ", redisKeyTTL: 60}}", []string{"redisKeyTTL: global_least_request has no such field; it is one of prefix_cache: leave it out"}},
		{"Redis where none is used", "{lb_policy: least_busy, lb_config: {criticalModels: [a], database: 1}}", []string{"database: least_busy has no such field; it is one of global_least_request, prefix_cache: leave it out"}},
		{"times with units, as the documentation had them", "{lb_policy: prefix_cache, lb_config: {" + where + ", timeout: 3000ms, redisKeyTTL: 1800ms}}",
			[]string{`timeout: must be a whole number of milliseconds, such as 3000, not "3000ms"`, `redisKeyTTL: must be a whole number of seconds, such as 1800, not "1800ms"`}},
		{"lists for values", "{lb_policy: [a], lb_config: {}}", []string{"1:13: lb_policy: must be one value"}},
		{"a list for a host", "{lb_policy: prefix_cache, lb_config: {serviceFQDN: [r], servicePort: 1}}", []string{"serviceFQDN: must be one value"}},
		{"a mistyped key at the top", "{lb_policy: least_busy, lb_conf: {}}", []string{"lb_conf: the plug-in has no such field; did you mean lb_config?"}},
		{"twice", "lb_policy: least_busy\nlb_config: {criticalModels: [a], criticalModels: [b]}", []string{"2:34: lb_config.criticalModels: is given twice"}},
		{"models that are none", "{lb_policy: least_busy, lb_config: {criticalModels: a}}", []string{"criticalModels: must be a list of names"}},
		{"a model without a name", `{lb_policy: least_busy, lb_config: {criticalModels: [a, ""]}}`, []string{"criticalModels: must hold names only"}},
		{"a metric that nobody reads", "{lb_policy: endpoint_metrics, lb_config: {metric_policy: least, target_metric: up}}", []string{`target_metric: "up" is no metric that is read here; it is one of vllm:num_requests_waiting`}},
		{"no metric", "{lb_policy: endpoint_metrics, lb_config: {metric_policy: most}}", []string{"target_metric: "}},
		{"a metric policy", "{lb_policy: endpoint_metrics, lb_config: {metric_policy: best}}", []string{`must be default, least or most, not "best"`}},
		{"the whole object", "{kind: WasmPlugin, spec: {defaultConfig: {lb_policy: least_busy}}}", []string{"give what stands under its spec.defaultConfig"}},
		{"a config that is none", "{lb_policy: least_busy, lb_config: [a]}", []string{"lb_config: must be a mapping of fields"}},
		{"not YAML", "lb_policy: [", []string{"the text is not YAML: "}},
		{"nothing", "", []string{"the text is empty"}},
		{"two documents", "lb_policy: a\n---\nlb_policy: b\n", []string{"more than one YAML document"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Import([]byte(c.text))
			var faults Faults
			if !errors.As(err, &faults) {
				t.Fatalf("no faults: %v", err)
			}
			if len(faults) != len(c.want) {
				t.Errorf("%d faults, want %d:\n%v", len(faults), len(c.want), err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no fault %q in:\n%v", want, err)
				}
			}
		})
	}
}

// The units are the code's, not those that its documentation gave.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		name, fields string
		ttl          time.Duration
		timeout      time.Duration
	}{
		{"C6 defaults", "", 1800 * time.Second, 3 * time.Second},
		{"C6 60 is 60 seconds", ", redisKeyTTL: 60", time.Minute, 3 * time.Second},
		{"C6 0 is the default", ", redisKeyTTL: 0, timeout: 0", 1800 * time.Second, 3 * time.Second},
		{"the timeout is in ms", ", timeout: 250", 1800 * time.Second, 250 * time.Millisecond},
		{"numbers may be quoted", `, timeout: "250", redisKeyTTL: "60"`, time.Minute, 250 * time.Millisecond},
		{"nothing given is nothing", ", timeout: , redisKeyTTL: null", 1800 * time.Second, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, err := Import([]byte("{lb_policy: prefix_cache, lb_config: {" + where + c.fields + "}}")) // C3: no lb_type
			if err != nil {
				t.Fatal(err)
			}
			want := redis.DefaultConfig()
			want.Address, want.Username, want.Timeout = "r.example:6379", "default", conf.Duration(c.timeout)
			if d := cmp.Diff(&want, in.Redis); d != "" || in.PrefixTTL != c.ttl {
				t.Errorf("prefixes live for %v, want %v; %s", in.PrefixTTL, c.ttl, d)
			}
		})
	}
}

// Anchors and merge keys mean what they mean in YAML.
func TestMerges(t *testing.T) {
	plain, err := Import([]byte("{lb_policy: prefix_cache, lb_config: {" + where + ", redisKeyTTL: 60, timeout: 250}}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a mapping":                  "{lb_policy: prefix_cache, lb_config: {<<: {" + where + ", redisKeyTTL: 60}, timeout: 250}}",
		"its own go before":          "{lb_policy: prefix_cache, lb_config: {redisKeyTTL: 60, <<: {" + where + ", redisKeyTTL: 5}, timeout: 250}}",
		"several, the first wins":    "{lb_policy: prefix_cache, lb_config: {<<: [{" + where + ", timeout: 250}, {timeout: 1, redisKeyTTL: 60}]}}",
		"merges within":              "{lb_policy: prefix_cache, lb_config: {<<: {<<: {" + where + ", timeout: 3}, redisKeyTTL: 60, timeout: 250}}}",
		"an anchor":                  "{lb_config: &c {" + where + ", redisKeyTTL: 60, timeout: 250}, <<: {lb_policy: prefix_cache, lb_config: *c}}",
		"all of it":                  "{<<: {lb_policy: prefix_cache, lb_config: {" + where + ", redisKeyTTL: 60, timeout: 250}}}",
		"twice by way of two merges": "{lb_policy: prefix_cache, lb_config: {<<: {" + where + "}, <<: {redisKeyTTL: 60, timeout: 250}}}",
	} {
		t.Run(name, func(t *testing.T) {
			if !Is([]byte(text)) {
				t.Error("it is not taken for a configuration of the plug-in")
			}
			got, err := Import([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(plain, got, cmpopts.IgnoreFields(Notice{}, "Line", "Column"), cmpopts.SortSlices(func(a, b Notice) bool { return a.Path < b.Path })); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestIs(t *testing.T) {
	for text, want := range map[string]bool{
		"lb_policy: x": true, "lb_config: {}": true, "kind: WasmPlugin": true, "kind: EndpointPickerConfig": false, "": false, "[": false, "- lb_policy": false, "a: lb_policy": false,
	} {
		if got := Is([]byte(text)); got != want {
			t.Errorf("Is(%q) = %t", text, got)
		}
	}
}

func FuzzImport(f *testing.F) {
	for _, s := range []string{"lb_policy: least_busy\nlb_config: {criticalModels: [a, *b]}", "&a {lb_policy: *a}", "{lb_policy: least_busy, <<: &a {<<: [*a, *a]}}", "{lb_policy: prefix_cache, lb_config: {" + where + ", redisKeyTTL: 1e9}}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		Is(text)
		in, err := Import(text)
		if (in == nil) == (err == nil) {
			t.Fatalf("%v, %v", in, err)
		}
		if in != nil && len(in.Text) == 0 {
			t.Fatal("an empty configuration")
		}
	})
}
