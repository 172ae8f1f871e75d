package system

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

// A burst of 64 different prompts at once on 8 idle servers through 3 routers: no
// server gets more than 10.
func TestABurstSpreads(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Servers: 8, Routers: 3, Plain: true, RouterSets: patient, Server: func(_ int, cfg *modelserver.Config) { cfg.TimeScale = 2 }})
	client := newClient(t)
	for round := range 5 {
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
		for endpoint, n := range counts {
			if n > 10 {
				t.Errorf("round %d: %s got %d of 64: %v", round, endpoint, n, counts)
			}
		}
		t.Logf("round %d: %v", round, counts)
		c.AwaitIdle(t)
	}
}
