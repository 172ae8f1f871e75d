package system

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

// asked is what came of a request with headers.
type asked struct {
	status     int
	reason     string
	retryAfter string
	model      string
	err        error
}

// ask sends a chat completion for a model, with an objective if it is not empty.
func ask(ctx context.Context, client *http.Client, url, model, objective string) (a asked) {
	body := fmt.Sprintf(`{"model":%q,"max_tokens":4,"messages":[{"role":"user","content":"hello"}]}`, model)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return asked{err: err}
	}
	q.Header.Set("Content-Type", "application/json")
	if objective != "" {
		q.Header.Set("x-gateway-inference-objective", objective)
	}
	resp, err := client.Do(q)
	if err != nil {
		return asked{err: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	a = asked{status: resp.StatusCode, reason: resp.Header.Get("x-pointsman-reason"), retryAfter: resp.Header.Get("Retry-After"), err: err}
	var answer struct{ Model string }
	if resp.StatusCode == http.StatusOK && err == nil {
		a.err = json.Unmarshal(raw, &answer)
		a.model = answer.Model
	}
	return a
}

// freeze stops, or goes on with, all servers.
func freeze(t *testing.T, c *cluster.Cluster, frozen bool) {
	t.Helper()
	for _, s := range c.Servers {
		if err := s.SetFaults(modelserver.Faults{Freeze: frozen}); err != nil {
			t.Error(err)
		}
	}
}

// A full pool turns away what can be turned away and serves the rest; an empty pool is
// not a full one (B097). Who is who is in the endpoints file, and changes while all runs.
func TestAFullPoolShedsWhatItMay(t *testing.T) {
	const policy = "objectives: [{name: batch, priority: -1}, {name: chat, priority: 5}]\n" +
		"rewrites: [{name: alias, rules: [{matches: [{model: alias}], targets: [{model: sim-model, weight: 1}, {model: none, weight: 0}]}]}]\n"
	c := cluster.Start(t, cluster.Options{
		Servers: 2, Policy: policy, Server: func(_ int, cfg *modelserver.Config) { cfg.TimeScale, cfg.Engine.MaxRunning = 25, 1 },
	})
	client := newClient(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	router := c.Router(t, 0)

	// explained is how a request of an objective would fare now.
	explained := func(objective string) *routerv1.Admission {
		e, err := router.Explain(ctx, &routerv1.ExplainRequest{Request: &routerv1.RequestDescription{
			Path: "/v1/completions", Body: []byte(`{"model":"sim-model","prompt":"x"}`),
			Headers: []*routerv1.Header{{Name: "X-Gateway-Inference-Objective", Value: objective}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return e.GetDecision().GetAdmission()
	}
	kittest.Eventually(t, "the router to know the objectives", func() bool { return explained("batch").GetSheddable() })

	// There is room: all are served, and a rewritten model is answered as the endpoint
	// names it.
	for objective, model := range map[string]string{"batch": "sim-model", "chat": "sim-model", "": "alias"} {
		if a := ask(ctx, client, c.URL(0), model, objective); a.err != nil || a.status != 200 || a.model != "sim-model" {
			t.Errorf("objective %q, model %s, with room: %+v", objective, model, a)
		}
	}
	c.AwaitMetric(t, 0, "pointsman_router_model_rewrites_total", "")

	// Others than the router fill both servers: one request runs and eight wait.
	freeze(t, c, true)
	var others sync.WaitGroup
	for _, s := range c.Servers {
		for range 9 {
			others.Go(func() {
				if a := ask(ctx, client, "http://"+s.Address(), "sim-model", ""); a.err != nil || a.status != 200 {
					t.Errorf("a request of others: %+v", a)
				}
			})
		}
	}
	kittest.Eventually(t, "the pool to be full", func() bool { return explained("batch").GetShed() })
	if a := explained("chat"); a.GetShed() || !a.GetSaturated() || a.GetSaturation() <= 1 || a.GetPriority() != 5 {
		t.Errorf("of a full pool, an explanation says %v", a)
	}
	if a := ask(ctx, client, c.URL(0), "sim-model", "batch"); a.status != 429 || a.reason != "shed" || a.retryAfter == "" {
		t.Errorf("sheddable, full: %+v, want 429, shed, Retry-After", a)
	}
	if n := c.Metric(t, 0, "pointsman_router_admission_total", `result="shed"`); n != 1 {
		t.Errorf("%v counted as shed, want 1", n)
	}

	// An operator changes his mind: batch is let in as well.
	c.Announce(t, strings.Replace(policy, "priority: -1", "priority: 0", 1), c.Servers...)
	kittest.Eventually(t, "batch not to be sheddable any more", func() bool { return !explained("batch").GetSheddable() })
	// And again: only what is called critical is.
	c.Announce(t, "criticalModels: [sim-model]\n", c.Servers...)
	kittest.Eventually(t, "models that are not critical to be sheddable", func() bool {
		a := ask(ctx, client, c.URL(0), "other-model", "")
		return a.status == 429
	})

	// The critical one waits for its turn with the others.
	critical := make(chan asked, 1)
	go func() { critical <- ask(ctx, client, c.URL(0), "sim-model", "chat") }()
	kittest.Eventually(t, "the critical request to be sent", func() bool {
		e, err := router.ListEndpoints(ctx, &routerv1.ListEndpointsRequest{})
		if err != nil {
			return false
		}
		inFlight := uint32(0)
		for _, s := range e.GetEndpoints() {
			inFlight += s.GetInFlightRequestCount()
		}
		return inFlight == 1
	})
	freeze(t, c, false)
	if a := <-critical; a.err != nil || a.status != 200 {
		t.Errorf("critical, full: %+v", a)
	}
	others.Wait()

	// Nobody is there: 503 for all, and not 429.
	c.Announce(t, policy)
	kittest.Eventually(t, "the pool to be empty", func() bool {
		e, err := router.ListEndpoints(ctx, &routerv1.ListEndpointsRequest{})
		return err == nil && len(e.GetEndpoints()) == 0
	})
	for _, objective := range []string{"batch", "chat"} {
		if a := ask(ctx, client, c.URL(0), "sim-model", objective); a.status != 503 || a.reason != "no-endpoint" || a.retryAfter == "" {
			t.Errorf("B097 objective %q, nobody there: %+v, want 503, no-endpoint, Retry-After", objective, a)
		}
	}
}
