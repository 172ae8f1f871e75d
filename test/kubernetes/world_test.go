package kubernetes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/follower"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/test/cluster"
	"github.com/pointsman/pointsman/test/kubernetes/apiserver"
)

type object = apiserver.Object

const (
	podsOf  = "/api/v1/namespaces/%s/pods"
	poolsOf = "/apis/inference.networking.k8s.io/v1/namespaces/%s/inferencepools"
	olderOf = "/apis/inference.networking.x-k8s.io/v1alpha2/namespaces/%s/"
)

// world is an API server with our types, a namespace in it, and a bus.
type world struct {
	*apiserver.Server
	ns   string
	nats string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Server: apiserver.Get(t), nats: kittest.NATS(t)}
	w.CRDs(t, filepath.Join("..", "testdata", "crds"))
	w.ns = w.Namespace(t, nil)
	return w
}

// pool makes an InferencePool that selects the label app=name.
func (w *world) pool(t testing.TB, name string, ports ...int) {
	t.Helper()
	w.Create(t, fmt.Sprintf(poolsOf, w.ns), object{
		"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "metadata": object{"name": name},
		"spec": object{"selector": object{"matchLabels": object{"app": name}}, "targetPorts": numbers(ports...)},
	})
}

func (w *world) poolPath(name string) string { return fmt.Sprintf(poolsOf, w.ns) + "/" + name }

func numbers(ports ...int) []object {
	var out []object
	for _, p := range ports {
		out = append(out, object{"number": p})
	}
	return out
}

// pod makes a pod with the label app and, if ip is not empty, makes it Ready there.
func (w *world) pod(t testing.TB, name, app, ip string, more ...func(pod object)) {
	t.Helper()
	pod := object{
		"metadata": object{"name": name, "labels": object{"app": app}},
		"spec":     object{"containers": []object{{"name": "engine", "image": "engine"}}},
	}
	for _, f := range more {
		f(pod)
	}
	w.Create(t, fmt.Sprintf(podsOf, w.ns), pod)
	if ip != "" {
		w.status(t, name, ip, true)
	}
}

func annotated(name, value string) func(object) {
	return func(pod object) { pod["metadata"].(object)["annotations"] = object{name: value} }
}

func (w *world) podPath(name string) string { return fmt.Sprintf(podsOf, w.ns) + "/" + name }

// status patches a pod's addresses, the first of several separated by commas being its
// own, and readiness.
func (w *world) status(t testing.TB, name, ips string, ready bool) {
	t.Helper()
	all := strings.Split(ips, ",")
	var list []object
	for _, ip := range all {
		list = append(list, object{"ip": ip})
	}
	word := "False"
	if ready {
		word = "True"
	}
	w.Patch(t, w.podPath(name)+"/status", object{"status": object{
		"phase": "Running", "podIP": all[0], "podIPs": list, "conditions": []object{{"type": "Ready", "status": word}},
	}})
}

// collector starts a collector, as admin unless its flags say otherwise.
func (w *world) collector(t testing.TB, flags ...string) *cluster.Process {
	t.Helper()
	if !slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--kubeconfig") }) {
		flags = append(flags, "--kubeconfig="+w.AdminConfig(t))
	}
	p := cluster.NewProcess(t, "metrics-collector", cluster.Binary(t, "metrics-collector"), 1,
		append([]string{"--set=nats.url=" + w.nats, "--set=admin.address=127.0.0.1:0"}, flags...)...)
	p.Start(t)
	return p
}

// holder is what a router or scorer of a pool knows.
type holder struct {
	*roster.Roster
	policy atomic.Pointer[statev1.PoolPolicy]
}

// follow follows a pool as routers do.
func (w *world) follow(t testing.TB, pool string) *holder {
	t.Helper()
	cfg := bus.DefaultConfig()
	cfg.URL = w.nats
	tel := telemetry.Discard()
	b, err := bus.New(cfg, pool, bus.NewPublisherID("holder"), tel)
	if err != nil {
		t.Fatal(err)
	}
	r := roster.New(roster.Config{})
	f, err := follower.New(r, b, tel)
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{Roster: r}
	f.OnPolicy(h.policy.Store)
	group := run.NewGroup(nil)
	group.Add("bus", b.Part())
	group.Add("follower", f.Part())
	connected := make(chan struct{})
	group.OnReady = func() { close(connected) }
	runGroup(t, group)
	<-connected
	return h
}

// addresses are the endpoints', ascending.
func (h *holder) addresses() []string {
	out := []string{}
	for _, e := range h.Snapshot().Table.Endpoints {
		out = append(out, e.Address)
	}
	slices.Sort(out)
	return out
}

// wait waits until the holder knows exactly these endpoints.
func (h *holder) wait(t testing.TB, why string, addresses ...string) {
	t.Helper()
	slices.Sort(addresses)
	var last []string
	defer func() {
		if t.Failed() {
			t.Logf("%s: the roster has %v, want %v", why, last, addresses)
		}
	}()
	kittest.Eventually(t, why, func() bool {
		last = h.addresses()
		return slices.Equal(last, addresses)
	})
}

// ready says whether a process is, and what it says.
func ready(t testing.TB, p *cluster.Process) (bool, string) {
	t.Helper()
	code, text := page(t, "http://"+p.Addr("admin")+"/readyz")
	return code == http.StatusOK, text
}

func awaitReady(t testing.TB, p *cluster.Process) {
	t.Helper()
	kittest.Eventually(t, "the collector is ready", func() bool { ok, _ := ready(t, p); return ok })
}

func page(t testing.TB, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// metric sums a process's metric over the series whose labels contain the text.
func metric(t testing.TB, p *cluster.Process, name, labels string) (sum float64) {
	t.Helper()
	_, text := page(t, "http://"+p.Addr("admin")+"/metrics")
	for line := range strings.Lines(text) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		base, set, _ := strings.Cut(series, "{")
		if !ok || base != "pointsman_metrics_collector_"+name || !strings.Contains(set, labels) {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			sum += v
		}
	}
	return sum
}

// runGroup runs parts until the test ends.
func runGroup(t testing.TB, group *run.Group) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- group.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
