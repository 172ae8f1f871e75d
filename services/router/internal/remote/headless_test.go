package remote

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// B197: a headless Service goes from 2 to 10 pods and back while calls are made and
// nothing fails: the name is looked up again all the same, the new ones are used, each
// about as much as the old, and no call is lost when they go. By default that takes 5 s.
func TestHeadlessServiceB197(t *testing.T) {
	if d := DefaultConfig().ScorerLookup.D(); d > 30*time.Second {
		t.Errorf("a name is looked up every %v, want 30 s at most", d)
	}
	pods := make([]*handmade, 10)
	names := make([]string, len(pods))
	free := kittest.FreePort(t)
	for i := range pods {
		names[i] = fmt.Sprintf("127.0.0.%d", 10+i)
		pods[i] = newHandmade("acme")
		pods[i].serve(t, net.JoinHostPort(names[i], fmt.Sprint(free)))
	}
	z := &zone{}
	z.set(nil, names[:2]...)
	r := newRig(t, one("acme", fmt.Sprintf("dns:///acme.test:%d", free)), withLookup(z.lookup), func(c *rigConfig) {
		c.cfg.ScorerLookup = conf.Duration(100 * time.Millisecond)
	})
	sc := r.ready(r.resolve("acme"), 2)
	stop := make(chan struct{})
	var callers sync.WaitGroup
	var asked atomic.Int64
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r.wantVerdict(r.ask(sc)[0], route.Scored)
				asked.Add(1)
			}
		})
	}
	more := func(n int64) {
		t.Helper()
		before := asked.Load()
		kittest.Eventually(t, "more calls", func() bool { return asked.Load() > before+n })
	}
	more(50)
	z.set(nil, names...)
	r.ready(sc, 10)
	before := make([]int64, len(pods))
	for i := range pods {
		before[i] = pods[i].calls.Load()
	}
	more(2000)
	for i := range pods {
		if n := pods[i].calls.Load() - before[i]; n < 50 || n > 800 {
			t.Errorf("pod %d of 10 has had %d of 2000 calls", i, n)
		}
	}
	z.set(nil, names[8:]...)
	r.ready(sc, 2)
	for i := range 8 {
		pods[i].stop()
	}
	more(100)
	close(stop)
	callers.Wait()
}
