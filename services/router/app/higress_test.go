package app

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/services/router/internal/epconfig"
	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

// servesAll is every scorer that an imported policy asks for.
type servesAll struct{}

func (servesAll) Types() []string {
	return []string{"queue-scorer", "kv-cache-scorer", "running-requests-size-scorer", "prefix-cache-scorer"}
}

func (s servesAll) Resolve(_, typ string, _ []byte) (string, any, bool, []string, error) {
	if !slices.Contains(s.Types(), typ) {
		return "", nil, false, nil, fmt.Errorf("no scorer serves type %q", typ)
	}
	return "some", nil, false, nil, nil
}

// Every policy is taken as it is pasted, and what it comes to loads without a complaint.
func TestConfigurationsOfHigressLoad(t *testing.T) {
	files, err := filepath.Glob("../internal/higress/testdata/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			imported := ImportHigress(file, text)
			if len(imported.GetFaults()) > 0 {
				t.Fatal(imported.GetFaults())
			}
			plain, err := epconfig.Load("generated", []byte(imported.GetEffectiveText()), epconfig.Deps{Scorers: servesAll{}})
			if err != nil {
				t.Fatal(err)
			}
			told := slices.Concat(plain.Warnings, plain.Infos)
			for _, n := range told {
				// The scorers of this test do not tell their defaults; "most" is what it says.
				if !strings.Contains(n.Message, "did not say what defaults") && !strings.Contains(n.Message, "is negative") {
					t.Errorf("what it comes to: %v", n)
				}
			}
			pasted, err := load(file, text, servesAll{})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(plain.Effective), string(pasted.Effective)); d != "" {
				t.Error(d)
			}
			if got, want := len(pasted.Warnings)+len(pasted.Infos), len(imported.GetWarnings())+len(imported.GetInfos())+len(told); got != want {
				t.Errorf("%d notices, want %d", got, want)
			}
		})
	}
}

func TestFaultsOfHigressHaveTheirPlaces(t *testing.T) {
	_, err := load("lb.yaml", []byte("lb_policy: least_busy\nlb_config:\n  criticalModel: [a]\n"), servesAll{})
	if want := "lb.yaml:3:3: lb_config.criticalModel: least_busy has no such field; did you mean criticalModels?"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = load("lb.yaml", []byte("lb_policy: endpoint_metrics\nlb_config: {metric_policy: least, target_metric: 'vllm:num_requests_waiting'}\n"), anyScorer{})
	if err != nil {
		t.Error(err)
	}
	_, err = load("lb.yaml", []byte("lb_policy: endpoint_metrics\nlb_config: {metric_policy: least, target_metric: 'vllm:kv_cache_usage_perc'}\n"), anyScorer{})
	var faults epconfig.Faults
	if !errors.As(err, &faults) || faults[0].Line != 0 || !strings.Contains(err.Error(), "kv-cache-scorer") {
		t.Errorf("a scorer that nobody serves: %v", err)
	}
}

type pod = routetest.Pod

// The criticality tree, by the rows of the reference's cases.
func TestLeastBusy(t *testing.T) {
	load := func(text string) []route.Filter {
		l, err := load("lb.yaml", []byte(text), servesAll{})
		if err != nil {
			t.Fatal(err)
		}
		return l.Config.Profiles[0].Filters
	}
	busy := load("{lb_policy: least_busy, lb_config: {criticalModels: [crit]}}")
	every := load("{lb_policy: least_busy, lb_config: {}}")
	metrics := load("{lb_policy: endpoint_metrics, lb_config: {}}")
	full := []string{"x", "y"}
	for _, c := range []struct {
		name    string
		filters []route.Filter
		model   string
		pods    []pod
		want    []int32
		shed    bool
	}{
		{"D2 an adapter's home, if critical", busy, "crit", []pod{{Waiting: 1, KV: .2, Active: []string{"crit"}, Max: 2}, {Waiting: 0, KV: .1, Max: 2}, {Waiting: 9, KV: .9, Active: full, Max: 2}}, []int32{0}, false},
		{"D4 the band of queues: 0, 3, 10", busy, "crit", []pod{{Waiting: 0}, {Waiting: 3}, {Waiting: 10}}, []int32{0, 1}, false},
		{"D5 5, 6: a whole number", busy, "crit", []pod{{Waiting: 5}, {Waiting: 6}}, []int32{0}, false},
		{"D7 all at 50 and above: all are looked at, adapters last", busy, "crit", []pod{{Waiting: 50, Active: full, Max: 2}, {Waiting: 50, Max: 2}, {Waiting: 90, Active: []string{"crit"}, Max: 2}}, []int32{1}, false},
		{"D8 49 passes, 50 does not", busy, "crit", []pod{{Waiting: 49, Max: 2}, {Waiting: 50, Active: []string{"crit"}, Max: 2}}, []int32{0}, false},
		{"D10 nobody has it and nobody has room: all stay", busy, "crit", []pod{{Waiting: 1, KV: .5, Active: full, Max: 2}, {Waiting: 1, KV: .5, Active: full, Max: 2}}, []int32{0, 1}, false},
		{"sheddable, and one has room", busy, "other", []pod{{Waiting: 6}, {Waiting: 5, KV: .8}, {Waiting: 0, KV: .9}}, []int32{1}, false},
		{"sheddable, and nobody has room", busy, "other", []pod{{Waiting: 6}, {Waiting: 0, KV: .9}}, nil, true},
		{"critical, and nobody has room", busy, "crit", []pod{{Waiting: 6}, {Waiting: 700, KV: 1}}, []int32{0}, false},
		{"D11 one endpoint without KV and adapter figures switches nothing off", busy, "other", []pod{{Waiting: 6, KV: -1}, {Waiting: 1, KV: -1}}, []int32{1}, false},
		{"D11 and the sheddable are still turned away", busy, "other", []pod{{Waiting: 6, KV: -1}, {Waiting: 9, KV: -1}}, nil, true},
		{"C8 no critical model: all are sheddable", every, "crit", []pod{{Waiting: 6}}, nil, true},
		{"endpoint_metrics turns nobody away", metrics, "any", []pod{{Waiting: 60, KV: .9}, {Waiting: 700, KV: 1}}, []int32{0}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cycle := routetest.Cycle(t, &route.Request{Model: c.model}, c.pods...)
			left := routetest.Positions(len(c.pods))
			shed := false
			for _, f := range c.filters {
				if left = f.Filter(cycle, left); len(left) == 0 {
					_, shed = f.(route.LoadFilter)
					break
				}
			}
			if d := cmp.Diff(c.want, append([]int32(nil), left...)); d != "" || shed != c.shed {
				t.Errorf("shed %t, want %t; %s", shed, c.shed, d)
			}
		})
	}
}

func TestRedisIsTakenFromHigress(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lb.yaml")
	text := []byte("lb_policy: global_least_request\nlb_config: {serviceFQDN: 127.0.0.1, servicePort: 7001, username: u, password: p, database: 2}\n")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	parsed := func(args ...string) *options {
		t.Helper()
		o, err := parse(append([]string{"--configFile", file}, args...), &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	o := parsed("--set", "redis.budget=10ms")
	if r := o.Redis.Redis; r.Address != "127.0.0.1:7001" || r.Username != "u" || r.Password != "p" || r.Database != 2 || r.Budget.String() != "10ms" {
		t.Errorf("%+v", r)
	}
	changed := bytes.Replace(text, []byte("7001"), []byte("7002"), 1)
	if o.otherRedis(text) != "" || !strings.Contains(o.otherRedis(changed), "started again") {
		t.Errorf("%q, %q", o.otherRedis(text), o.otherRedis(changed))
	}
	// redis.static is of no use elsewhere: the address is set, and the rest is as pasted.
	o = parsed("--set", "redis.address=127.0.0.1:9")
	if r := o.Redis.Redis; r.Address != "127.0.0.1:9" || r.Username != "u" || r.Password != "p" || r.Database != 2 || o.otherRedis(changed) != "" {
		t.Errorf("%+v", r)
	}
	o = parsed("--set", "redis.addresses=[127.0.0.1:9]", "--set", "redis.username=own", "--set", "redis.password=mine", "--set", "redis.timeout=1s")
	if r := o.Redis.Redis; r.Address != "" || r.Username != "own" || r.Password != "mine" || r.Database != 0 || r.Timeout.String() != "1s" {
		t.Errorf("%+v", r)
	}
	password := bytes.Replace(text, []byte("password: p"), []byte("password: new"), 1)
	if o.otherRedis(password) != "" {
		t.Error("a pasted password that is not used was said to matter")
	}
	if o = parsed("--set", "redis.address=127.0.0.1:9"); o.otherRedis(password) == "" {
		t.Error("another password was passed over")
	}
	static := []byte("{lb_policy: global_least_request, lb_config: {serviceFQDN: redis.static, servicePort: 6379, username: u, password: p, database: 2}}")
	l, err := load("lb.yaml", static, servesAll{})
	if err != nil {
		t.Fatal(err)
	}
	if told := o.aboutRedis("lb.yaml", static, l.Warnings); len(l.Warnings) != 1 || len(told) != 0 {
		t.Errorf("told %v of a name that is not used; without the setting %v", told, l.Warnings)
	}
	endpointPicker := []byte("kind: EndpointPickerConfig")
	if o.otherRedis(endpointPicker) != "" {
		t.Error("a configuration that names no Redis was said to change it")
	}
}
