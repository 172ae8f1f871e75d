package system

import (
	"testing"
	"time"

	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

// A model server that dies under load costs no request that had not begun to be
// answered: answers here are not streamed, so none has begun.
func TestADyingModelServerLosesNothing(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Servers: 4, Server: func(i int, cfg *modelserver.Config) { cfg.TimeScale = 5 }})
	stop := background(t, c, 8, false)
	time.Sleep(300 * time.Millisecond) // requests are on all servers
	if err := c.Servers[1].Kill(); err != nil {
		t.Fatal(err)
	}
	c.AwaitMetric(t, 0, "pointsman_router_http_retries_total", "")
	time.Sleep(300 * time.Millisecond) // and more come after its death
	t.Logf("%d requests, none failed", stop())
}
