package system

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

// A burst of 64 different prompts at once on 8 idle servers through 3 routers: no
// server gets more than 10.
func TestABurstSpreads(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Servers: 8, Routers: 3, Plain: true, RouterSets: patient, Server: func(_ int, cfg *modelserver.Config) { cfg.TimeScale = 2 }})
	client := newClient(t)
	for i := range c.Routers { // by which the others know of it
		if a, err := cluster.Post(t.Context(), client, c.URL(i)+"/v1/chat/completions", []byte(`{"model":"sim-model","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}`)); err != nil || a.Status != http.StatusOK {
			t.Fatalf("status %d, error %v: %s", a.Status, err, a.Body)
		}
	}
	for round := range 5 {
		awaitIdleServers(t, c)
		counts, mu := make(map[string]int), sync.Mutex{}
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				text := fmt.Sprintf("round %d prompt %d: %s", round, i, strings.Repeat(fmt.Sprintf("word%d ", i*7919+round), 40+i))
				body := fmt.Appendf(nil, `{"model":"sim-model","max_tokens":32,"messages":[{"role":"user","content":%q}]}`, text)
				<-begin
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
				defer cancel()
				a, err := cluster.Post(ctx, client, c.URL(i%3)+"/v1/chat/completions", body)
				if err != nil || a.Status != http.StatusOK {
					t.Errorf("prompt %d: status %d, error %v", i, a.Status, err)
				}
				mu.Lock()
				defer mu.Unlock()
				counts[a.Endpoint]++
			})
		}
		close(begin)
		wg.Wait()
		most := 0
		for _, n := range counts {
			most = max(most, n)
		}
		if most > 10 {
			t.Errorf("round %d: %d of 64 on one server: %v", round, most, counts)
		}
		t.Logf("round %d: %v", round, counts)
	}
}

// awaitIdleServers waits until every router knows of no request in flight, and has figures
// of every server from after the last one ended: with those of before, the servers that were
// scraped first would look better to all routers alike.
func awaitIdleServers(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	c.AwaitIdle(t)
	for i := range c.Routers {
		client := c.Router(t, i)
		kittest.Eventually(t, fmt.Sprintf("router %d to see that all servers are idle", i+1), func() bool {
			e, err := client.ListEndpoints(t.Context(), &routerv1.ListEndpointsRequest{})
			return err == nil && !slices.ContainsFunc(e.GetEndpoints(), func(s *routerv1.EndpointStatus) bool {
				return s.GetStale() || s.GetRunningRequestCount()+s.GetWaitingRequestCount() != 0 || s.GetKvCacheUsageRatio() != 0
			})
		})
	}
}
