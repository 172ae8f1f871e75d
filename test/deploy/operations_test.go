package deploy

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/test/cluster"
)

var update = flag.Bool("update", false, "write the list of metrics in docs/operations.md")

const beginMetrics, endMetrics = "<!-- metrics: written by go test ./test/deploy -run TestOperationsPage -update -->\n", "<!-- end of metrics -->\n"

// instrument is a metric as a service lists it.
type instrument struct {
	kind, description string
	services          []string
}

// instruments asks every service for its metrics, in every mode that has some of its own.
func instruments(t *testing.T) map[string]*instrument {
	t.Helper()
	away := fmt.Sprintf("127.0.0.1:%d", kittest.FreePort(t))
	common := []string{"--set=nats.url=nats://" + away, "--set=admin.address=127.0.0.1:0"}
	scorer := []string{"--set=listen.grpc.address=127.0.0.1:0"}
	redis := "--set=redis.address=" + away
	all := make(map[string]*instrument)
	for _, p := range []struct {
		service string
		args    []string
	}{
		{"router", []string{"--set=listen.grpc.address=127.0.0.1:0", "--set=listen.http.address=127.0.0.1:0", "--set=listen.extProc.address=127.0.0.1:0", "--set=listen.extProc.healthAddress=", redis, fmt.Sprintf("--set=scorers=[{name: scorer-queue, target: %q}, {name: scorer-kv, target: %[1]q}, {name: prefix-indexer, target: %[1]q}]", away)}},
		{"scorer-queue", scorer},
		{"scorer-kv", scorer},
		{"prefix-indexer", append(scorer, redis, "--set=store=redis")},
		{"disagg-sidecar", []string{"--set=listen.address=127.0.0.1:0"}},
		{"metrics-collector", nil},
		{"metrics-collector", []string{"--poolName=x", "--kubeconfig=" + nowhere(t)}},
		{"metrics-collector", []string{"--watchAllPools", "--kubeconfig=" + nowhere(t)}},
	} {
		run := cluster.NewProcess(t, p.service, cluster.Binary(t, p.service), 1, append(p.args, common...)...)
		run.Start(t)
		_, text := get(t, run.Addr("admin")+"/instruments")
		run.Kill()
		for line := range strings.Lines(text) {
			f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			if len(f) != 3 {
				t.Fatalf("%s lists %q", p.service, line)
			}
			if all[f[0]] == nil {
				all[f[0]] = &instrument{kind: f[1], description: f[2]}
			}
			if i := all[f[0]]; !slices.Contains(i.services, p.service) {
				i.services = append(i.services, p.service)
			}
		}
	}
	if len(all) < 60 {
		t.Fatalf("%d metrics: the services do not list theirs", len(all))
	}
	return all
}

// TestOperationsPage holds docs/operations.md, and the alerts, against the code.
func TestOperationsPage(t *testing.T) {
	all := instruments(t)
	path := filepath.Join(root, "docs", "operations.md")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), beginMetrics)
	_, after, ok2 := strings.Cut(rest, endMetrics)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for metrics", path)
	}
	want := before + beginMetrics + table(all) + endMetrics + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if want != string(raw) {
		t.Errorf("the list of metrics is not up to date: go test ./test/deploy -run TestOperationsPage -update")
	}
	alerts(t, all, want)
}

func table(all map[string]*instrument) string {
	var b strings.Builder
	b.WriteString("\n| metric | kind | of | meaning |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		i := all[name]
		of := strings.Join(i.services, ", ")
		if len(i.services) == 6 {
			of = "all"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, i.kind, of, strings.ReplaceAll(i.description, "|", "\\|"))
	}
	b.WriteString("\n")
	return b.String()
}

// alerts wants a paragraph for every alert, and metrics in them that there are.
func alerts(t *testing.T, all map[string]*instrument, text string) {
	t.Helper()
	o := render(t, "overlays/monitoring")
	names := regexp.MustCompile(`pointsman_[a-z0-9_]+`)
	n := 0
	for _, g := range o["PrometheusRule/pointsman"].Spec.Groups {
		for _, r := range g.Rules {
			n++
			if !strings.Contains(text, "\n#### "+r.Alert+"\n") || r.Annotations["runbook"] != "docs/operations.md#"+strings.ToLower(r.Alert) {
				t.Errorf("docs/operations.md has no paragraph for %s, or the alert does not lead there", r.Alert)
			}
			for _, name := range names.FindAllString(r.Expr, -1) {
				if all[name] == nil {
					t.Errorf("%s goes by %s, which no service has", r.Alert, name)
				}
			}
		}
	}
	if got := strings.Count(text, "\n#### Pointsman"); n < 15 || got != n {
		t.Errorf("%d alerts, %d paragraphs", n, got)
	}
	for _, name := range names.FindAllString(text, -1) {
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if all[name] == nil && all[base] == nil && name != "pointsman_router_requests_per_second" && name != "pointsman_build_info" {
			t.Errorf("docs/operations.md speaks of %s, which no service has", name)
		}
	}
}
