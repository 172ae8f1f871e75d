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
// server gets more than 10. The machine may hold a router up for as long as a burst
// takes, and what it has not heard it cannot heed: one burst of five may go to 11.
func TestABurstSpreads(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Servers: 8, Routers: 3, Plain: true, RouterSets: patient, Server: func(_ int, cfg *modelserver.Config) { cfg.TimeScale = 2 }})
	client := newClient(t)
	over := 0
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
		most := 0
		for _, n := range counts {
			most = max(most, n)
		}
		if most > 10 {
			over++
		}
		if most > 11 || over > 1 {
			t.Errorf("round %d: %d of 64 on one server: %v", round, most, counts)
		}
		t.Logf("round %d: %v", round, counts)
		c.AwaitIdle(t)
	}
}
