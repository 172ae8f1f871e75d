package envoy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/test/cluster"
)

// pretended is the load of a server: waiting requests, KV-cache usage, adapters.
type pretended struct {
	waiting  int
	kv       float64
	adapters string
}

// burden makes the servers tell these loads, and waits until the router knows.
func (r *rig) burden(t *testing.T, loads ...pretended) {
	t.Helper()
	for i, l := range loads {
		r.servers.all[i].pretend(l.waiting, l.kv, l.adapters)
	}
	router := r.Router(t, 0)
	kittest.Eventually(t, "the router to know the loads", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		e, err := router.ListEndpoints(ctx, &routerv1.ListEndpointsRequest{})
		if err != nil {
			return false
		}
		for _, s := range e.GetEndpoints() {
			for i, l := range loads {
				near := s.GetKvCacheUsageRatio()-l.kv < 1e-6 && l.kv-s.GetKvCacheUsageRatio() < 1e-6
				if s.GetEndpoint().GetAddress() == r.servers.all[i].address && (int(s.GetWaitingRequestCount()) != l.waiting || !near) {
					return false
				}
			}
		}
		return true
	})
}

// TestLoads are the rows of the reference's own tests that turn on the servers' loads, with
// scorers where it once had a tree of filters. Errors are OpenAI's JSON and bodies stay as
// they are, where the reference has plain text and sorts the keys.
func TestLoads(t *testing.T) {
	r := newRig(t, options{file: overrideHost, cluster: cluster.Options{
		Servers: 3, Policy: "objectives: [{name: batch, priority: -1}, {name: chat, priority: 2}]\nrewrites: [{name: alias, rules: [{matches: [{model: my-model}], targets: [{model: my-model-12345, weight: 1}]}]}]\n",
	}})
	ask := func(t *testing.T, model, objective string) answer {
		t.Helper()
		return r.send(t, "openai", request{
			path: "/v1/completions", body: []byte(fmt.Sprintf(`{"max_tokens":100,"model":%q,"prompt":"test %d","temperature":0}`, model, time.Now().UnixNano())),
			headers: map[string]string{headerDo: "echo", "x-gateway-inference-objective": objective, "hi": "mom"},
		})
	}
	at := func(t *testing.T, a answer, want int) {
		t.Helper()
		if got := a.headers.Get("X-Test-Server"); a.status != http.StatusOK || got != r.servers.all[want].address {
			t.Errorf("status %d from %q, want server %d: %.300s", a.status, got, want, a.body)
		}
		r.idle(t)
	}
	t.Run("A1, B1: the idle one", func(t *testing.T) {
		r.burden(t, pretended{3, .2, ""}, pretended{0, .1, ""}, pretended{10, .2, ""})
		a := ask(t, "my-model", "chat")
		at(t, a, 1)
		var got seen
		if err := json.Unmarshal(a.body, &got); err != nil {
			t.Fatal(err)
		}
		if d := r.decided(t, got); d.GetModel() != "my-model-12345" || d.GetClientModel() != "my-model" || d.GetAdmission().GetPriority() != 2 || got.Headers.Get("Hi") != "mom" {
			t.Errorf("decided on %q for %q, priority %d", d.GetModel(), d.GetClientModel(), d.GetAdmission().GetPriority())
		}
	})
	t.Run("A7, A8: a body in two parts, cut in the model's name", func(t *testing.T) {
		body, more := io.Pipe()
		go func() {
			_, _ = io.WriteString(more, `{"max_tokens":100,"model":"sim-`)
			_, _ = io.WriteString(more, `model","prompt":"test6"}`)
			more.Close()
		}()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		req, err := request{path: "/v1/completions", body: []byte{}, headers: map[string]string{headerDo: "echo"}}.make(ctx, r.url("openai"))
		if err != nil {
			t.Fatal(err)
		}
		req.Body, req.ContentLength = body, -1
		resp, err := r.h1.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		at(t, answer{status: resp.StatusCode, headers: resp.Header, body: raw}, 1)
	})
	t.Run("A5: all are full, and the request can wait", func(t *testing.T) {
		r.burden(t, pretended{6, .2, ""}, pretended{0, .85, ""}, pretended{10, .9, ""})
		kittest.Eventually(t, "the router to know the objective", func() bool { return ask(t, "sim-model", "batch").status == http.StatusTooManyRequests })
		ask(t, "sim-model", "batch").refused(t, http.StatusTooManyRequests, "shed")
	})
	t.Run("B4: all are full, and the request cannot wait", func(t *testing.T) {
		if a := ask(t, "sim-model", "chat"); a.status != http.StatusOK {
			t.Errorf("status %d: %s", a.status, a.body)
		}
	})
	r.idle(t)
	r.content(t, "openai")
}

// tree is the configuration of the first endpoint pickers, whose filters decide.
const tree = `apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: low-queue-filter, parameters: {threshold: 128}}
- {type: lora-affinity-filter, parameters: {threshold: 0.999}}
- {type: least-queue-filter}
- {type: least-kv-cache-filter}
- type: decision-tree-filter
  name: low-latency
  parameters:
    current: {pluginRef: low-queue-filter}
    nextOnSuccess:
      decisionTree:
        current: {pluginRef: lora-affinity-filter}
        nextOnSuccessOrFailure: {decisionTree: {current: {pluginRef: least-queue-filter}, nextOnSuccessOrFailure: {decisionTree: {current: {pluginRef: least-kv-cache-filter}}}}}
    nextOnFailure:
      decisionTree:
        current: {pluginRef: least-queue-filter}
        nextOnSuccessOrFailure: {decisionTree: {current: {pluginRef: lora-affinity-filter}, nextOnSuccessOrFailure: {decisionTree: {current: {pluginRef: least-kv-cache-filter}}}}}
- {type: random-picker}
- {type: single-profile-handler}
schedulingProfiles:
- name: default
  plugins: [{pluginRef: low-latency}, {pluginRef: random-picker}]
`

// four is what newer ones score by unless told otherwise.
const four = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: queue-scorer}
- {type: kv-cache-utilization-scorer}
- {type: prefix-cache-scorer}
- {type: lora-affinity-scorer}
schedulingProfiles:
- name: default
  plugins: [{pluginRef: queue-scorer, weight: 1}, {pluginRef: kv-cache-utilization-scorer, weight: 1}, {pluginRef: prefix-cache-scorer, weight: 1}, {pluginRef: lora-affinity-scorer, weight: 1}]
`

// TestAdapters are the reference's rows that turn on where adapters are loaded, each with
// the configuration of its time.
func TestAdapters(t *testing.T) {
	const target = "sql-lora-1fdg2"
	for _, c := range []struct {
		name, config string
		loads        []pretended
		want         int
	}{
		{"A4: who has the adapter has too long a queue", tree, []pretended{{10, .2, "foo,bar"}, {200, .1, "foo," + target}, {6, .2, "foo"}}, 2},
		{"B3: the adapter outweighs the cache", four, []pretended{{10, .2, "foo,bar"}, {10, .4, "foo," + target}, {10, .3, "foo"}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, options{file: overrideHost, cluster: cluster.Options{
				Servers: 3, ConfigText: c.config,
				Policy: "rewrites: [{name: sql, rules: [{matches: [{model: sql-lora}], targets: [{model: " + target + ", weight: 1}]}]}]\n",
			}})
			r.burden(t, c.loads...)
			for range 3 {
				a := r.send(t, "openai", request{
					path: "/v1/completions", body: fmt.Appendf(nil, `{"model":"sql-lora","prompt":"test %d"}`, time.Now().UnixNano()), headers: map[string]string{headerDo: "echo"},
				})
				var got seen
				if err := json.Unmarshal(a.body, &got); err != nil {
					t.Fatalf("status %d, %v: %.300s", a.status, err, a.body)
				}
				if d := r.decided(t, got); a.headers.Get("X-Test-Server") != r.servers.all[c.want].address || d.GetModel() != target {
					t.Errorf("%q went to %s, want server %d", d.GetModel(), a.headers.Get("X-Test-Server"), c.want)
				}
				r.idle(t)
			}
		})
	}
}
