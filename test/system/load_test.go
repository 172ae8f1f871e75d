package system

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/sim/workload"
	"github.com/pointsman/pointsman/test/cluster"
)

// fast makes simulated servers fast enough for thousands of requests in seconds.
func fast(_ int, cfg *modelserver.Config) { cfg.TimeScale = 25 }

// patient makes routers wait for scorers on a machine that is busy with tests, where
// the question is not how fast they are.
var patient = []string{"scoring.timeout=1s"}

// conversations is a workload of multi-turn sessions: some 5 turns each, small
// system prompts that sessions share, histories that they do not.
func conversations(sessions int) workload.Config {
	cfg := workload.DefaultConfig()
	cfg.Sessions, cfg.SessionRate = sessions, 0
	cfg.SystemPrompts, cfg.SystemTokens = 8, workload.Between(50, 100)
	cfg.FirstTokens, cfg.TurnTokens, cfg.AnswerTokens = workload.Between(100, 400), workload.Between(50, 150), workload.Between(20, 60)
	cfg.Turns, cfg.ThinkSeconds = workload.Always(5), workload.Always(0)
	return cfg
}

// replay plays a workload over the cluster's routers, turn by turn in each session,
// several sessions at a time, every session always at the same router. It returns
// how many requests were made; any answer but a complete one is a test error.
func replay(t *testing.T, c *cluster.Cluster, w workload.Config, concurrency int) int {
	t.Helper()
	g, err := workload.New(w)
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var requests, next atomic.Int64
	var wg sync.WaitGroup
	for range concurrency {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < g.Sessions(); i = int(next.Add(1)) - 1 {
				s := g.Session(i)
				for turn, ok := s.Next(); ok; turn, ok = s.Next() {
					// Each turn goes to another router: whatever one has learned, all have.
					url := c.URL((i+turn.Index)%len(c.Routers)) + "/v1/chat/completions"
					a, err := cluster.Post(ctx, client, url, turn.ChatBody(false))
					if err != nil || a.Status != http.StatusOK {
						t.Errorf("session %d turn %d: status %d, error %v: %.300s", i, turn.Index, a.Status, err, a.Body)
						return
					}
					requests.Add(1)
					text, err := a.Text()
					if err != nil {
						t.Error(err)
						return
					}
					s.Answer(text)
				}
			}
		})
	}
	wg.Wait()
	return int(requests.Load())
}

// newClient returns an HTTP client that keeps its connections.
func newClient(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{MaxIdleConnsPerHost: 256}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// background keeps a cluster under load until stop is called, which returns how many
// requests were answered in full. Any other answer is a test error.
func background(t *testing.T, c *cluster.Cluster, concurrency int, retryRefused bool) (stop func() int64) {
	t.Helper()
	client := newClient(t)
	ctx, cancel := context.WithCancel(context.Background())
	var done atomic.Int64
	var wg sync.WaitGroup
	for n := range concurrency {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				body := fmt.Appendf(nil, `{"model":"sim-model","max_tokens":8,"messages":[{"role":"user","content":"worker %d asks for the %dth time"}]}`, n, i)
				if a, err := oneOf(c, client, i, body, retryRefused); err != nil || a.Status != http.StatusOK {
					t.Errorf("worker %d request %d: status %d, error %v: %.300s", n, i, a.Status, err, a.Body)
					return
				}
				done.Add(1)
			}
		})
	}
	return func() int64 {
		cancel()
		wg.Wait()
		return done.Load()
	}
}

// oneOf sends to router i, modulo how many there are. With retryRefused it does what
// a load balancer does: a router that takes no connection is passed over.
func oneOf(c *cluster.Cluster, client *http.Client, i int, body []byte, retryRefused bool) (cluster.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n := len(c.Routers)
	a, err := cluster.Post(ctx, client, c.URL(i%n)+"/v1/chat/completions", body)
	for k := 1; retryRefused && isRefused(err) && k < n; k++ {
		a, err = cluster.Post(ctx, client, c.URL((i+k)%n)+"/v1/chat/completions", body)
	}
	return a, err
}
