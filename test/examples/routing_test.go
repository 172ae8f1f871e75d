package examples

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/test/cluster"
)

// east and west are the labels of servers that take turns.
func eastWest(i int) string {
	return []string{
		"{zone: a, topology.kubernetes.io/region: se}",
		"{zone: b, topology.kubernetes.io/region: pl}",
	}[i%2]
}

// decisions are the newest ones of a router.
func decisions(t *testing.T, c routerv1.RouterServiceClient, count uint32) []*routerv1.Decision {
	t.Helper()
	stream, err := c.WatchDecisions(t.Context(), &routerv1.WatchDecisionsRequest{PastCount: count, PastOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var all []*routerv1.Decision
	for {
		m, err := stream.Recv()
		if err != nil {
			return all
		}
		all = append(all, m.GetDecision())
	}
}

// Strangers' scorers in three languages decide real traffic, in one profile with a
// built-in one and two versions of one of them side by side; they are shown by name
// wherever ours are.
func TestExamplesRouteTraffic(t *testing.T) {
	zone := all()[0].start(t)
	newer := all()[0].start(t, "--type", "zone-scorer-2", "--name", "zone-2")
	choices, carbon := all()[1].start(t), all()[2].start(t)
	file := filepath.Join(t.TempDir(), "epp.yaml")
	text := config("zone-scorer: 5", "zone-scorer-2: 1", "two-choices-scorer: 1", "carbon-scorer: 2", "queue-scorer: 1")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{
		Servers: 6, Server: quick, Labels: eastWest, Plain: true, ConfigFile: file, RouterSets: []string{"scoring.timeout=2s"},
		Scorers: []string{
			fmt.Sprintf("{name: zone, target: %q}", zone), fmt.Sprintf("{name: zone-2, target: %q}", newer),
			fmt.Sprintf("{name: choices, target: %q}", choices), fmt.Sprintf("{name: carbon, target: %q}", carbon),
		},
	})
	router := c.Router(t, 0)
	for _, name := range []string{"zone", "zone-2", "choices", "carbon"} {
		kittest.Eventually(t, name+" to be ready", func() bool { return ready(t, router, name) })
	}
	zones := make(map[string]string) // of endpoints by address
	for i, s := range c.Servers {
		zones[s.Address()] = []string{"a", "b"}[i%2]
	}
	used := make(map[string]bool)
	for i := range 40 {
		want := []string{"a", "b"}[i%2]
		status, endpoint := ask(t, c.URL(0), fmt.Sprint("request ", i), map[string]string{"x-zone": want})
		if status != 200 || zones[endpoint] != want {
			t.Errorf("request %d of zone %s: status %d from %s, zone %s", i, want, status, endpoint, zones[endpoint])
		}
		used[endpoint] = true
	}
	if len(used) < 4 {
		t.Errorf("%d endpoints were used: two choices do not spread", len(used))
	}
	// Without the header the zone scorers abstain and the cleaner region wins.
	for i := range 10 {
		if _, endpoint := ask(t, c.URL(0), fmt.Sprint("no zone ", i), nil); zones[endpoint] != "a" {
			t.Errorf("request %d went to %s, zone %s, where power is dirty", i, endpoint, zones[endpoint])
		}
	}
	for _, d := range decisions(t, router, 50) {
		for _, s := range d.GetProfiles()[0].GetScorers() {
			if v := s.GetVerdict(); v != routerv1.ScorerVerdict_SCORER_VERDICT_SCORED && v != routerv1.ScorerVerdict_SCORER_VERDICT_ABSTAINED {
				t.Errorf("%s: %v, %s", s.GetPlugin(), v, s.GetReason())
			}
		}
	}
	shown(t, c, file, text)
	weighed(t, c, file, text, zones)
}

// weighed has the two versions disagree, and the weights say who is heeded: at first the
// old one, then, after nothing but the configuration was changed, the new one.
func weighed(t *testing.T, c *cluster.Cluster, file, text string, zones map[string]string) {
	t.Helper()
	apart := strings.Replace(text, "- type: zone-scorer-2\n", "- type: zone-scorer-2\n  parameters: {header: x-zone-2}\n", 1)
	disputed := map[string]string{"x-zone": "a", "x-zone-2": "b"}
	for _, tc := range []struct{ older, newer, want string }{{"7", "1", "a"}, {"1", "9", "b"}} {
		weighted := strings.NewReplacer("zone-scorer, weight: 5", "zone-scorer, weight: "+tc.older, "zone-scorer-2, weight: 1", "zone-scorer-2, weight: "+tc.newer).Replace(apart)
		if err := os.WriteFile(file+".next", []byte(weighted), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".next", file); err != nil {
			t.Fatal(err)
		}
		router := c.Router(t, 0)
		kittest.Eventually(t, "the weights to be in use", func() bool {
			ask(t, c.URL(0), "is it in use?", disputed)
			s := decisions(t, router, 1)[0].GetProfiles()[0].GetScorers()
			return fmt.Sprint(s[0].GetWeight(), " ", s[1].GetWeight()) == tc.older+" "+tc.newer
		})
		for i := range 10 {
			if _, endpoint := ask(t, c.URL(0), fmt.Sprint("disputed ", i), disputed); zones[endpoint] != tc.want {
				t.Errorf("with weights %s and %s request %d went to zone %s, want %s", tc.older, tc.newer, i, zones[endpoint], tc.want)
			}
		}
	}
}

// shown looks for the scorers where people look.
func shown(t *testing.T, c *cluster.Cluster, file, text string) {
	t.Helper()
	pointsman := func(args ...string) string {
		t.Helper()
		return command(t, ".", nil, cluster.PlainBinary(t, "pointsman"), append(args, "--router", c.Routers[0].Addr("grpc"))...)
	}
	body := filepath.Join(t.TempDir(), "request.json")
	if err := os.WriteFile(body, []byte(`{"model":"sim-model","messages":[{"role":"user","content":"why?"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for where, words := range map[string][]string{
		pointsman("scorers"): {"zone ", "zone-scorer", "zone-2", "zone-scorer-2", "choices", "carbon-scorer", "unary", "stream", "1.0.0"},
		pointsman("explain", "-f", body, "-H", "x-zone: b"): {"in b, where the client is", "in a, elsewhere", "waiting, drawn", "gCO2/kWh", "zone-scorer × 5", "zone-scorer-2 × 1"},
		pointsman("decisions", "-n", "5"):                   {"zone-scorer", "carbon-scorer"},
		pointsman("config", "check", file, "-o", "text"):    {"is good: "},
	} {
		for _, word := range words {
			if !strings.Contains(where, word) {
				t.Errorf("%q is not in:\n%s", word, where)
			}
		}
	}
	for _, name := range []string{"zone", "zone-2", "choices", "carbon"} {
		if n := c.Metric(t, 0, "pointsman_router_scorer_calls_total", fmt.Sprintf("scorer=%q", name)); n < 50 {
			t.Errorf("metrics count %v calls of %s", n, name)
		}
	}
	// A scorer in another language refuses its parameters, by key.
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte(strings.Replace(text, "- type: zone-scorer\n", "- type: zone-scorer\n  parameters: {lable: x}\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := c.Router(t, 0).CheckConfig(t.Context(), &routerv1.CheckConfigRequest{Source: bad, Text: readFile(t, bad)})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(m.GetFaults(), func(n *routerv1.ConfigNotice) bool {
		return strings.Contains(n.GetMessage(), "there is no such parameter") && strings.Contains(n.GetPath()+n.GetMessage(), "lable")
	}) {
		t.Errorf("faults %v", m.GetFaults())
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
