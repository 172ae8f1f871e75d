package system

import (
	"testing"
	"time"

	"github.com/pointsman/pointsman/test/cluster"
)

// Any service restarted under load: no request fails.
func TestRestartsUnderLoadLoseNothing(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Servers: 4, Routers: 2, Collectors: 2, Server: fast})
	stop := background(t, c, 8, true)
	restart := func(name string, p *cluster.Process) {
		t.Helper()
		before := time.Now()
		p.Restart(t)
		for i := range c.Routers {
			c.AwaitReady(t, i)
		}
		t.Logf("%s restarted, all ready again after %s", name, time.Since(before).Round(time.Millisecond))
	}
	for name, p := range c.Scorers {
		restart(name, p)
	}
	restart("metrics-collector-1", c.Collectors[0])
	restart("router-1", c.Routers[0])
	c.NATS.Stop()
	time.Sleep(500 * time.Millisecond) // a while without a bus, under load
	c.NATS.Restart()
	for i := range c.Routers {
		c.AwaitReady(t, i)
	}
	if n := stop(); n < 100 {
		t.Errorf("only %d requests were made: there was no load", n)
	} else {
		t.Logf("%d requests, none failed", n)
	}
}

// Killed without warning: the others decide, and no request fails.
func TestKilledScorersLoseNothing(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Servers: 4, Server: fast})
	stop := background(t, c, 8, false)
	for _, p := range c.Scorers {
		p.Kill()
	}
	c.AwaitMetric(t, 0, "pointsman_router_fallbacks_total", `reason="no_scores"`)
	for _, p := range c.Scorers {
		p.Start(t)
	}
	c.AwaitReady(t, 0)
	t.Logf("%d requests, none failed", stop())
}
