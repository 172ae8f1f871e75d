package envoy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/test/cluster"
)

// tally counts answers by status.
type tally struct {
	mu sync.Mutex
	by map[int]int
}

func (c *tally) add(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[status]++
}

func (c *tally) of(status int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[status]
}

// load sends requests over listeners until stop is called, which returns what was answered on
// each.
func (r *rig) load(t testing.TB, listeners ...string) (counts map[string]*tally, stop func()) {
	counts = make(map[string]*tally)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, l := range listeners {
		c := &tally{by: make(map[int]int)}
		counts[l] = c
		for worker := range 2 {
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					q := request{body: chat(300 + 20_000*(i%4)), headers: map[string]string{headerDo: "echo"}, h2: worker == 1}
					if i%5 == 0 {
						q = request{method: http.MethodGet, path: "/v1/models"}
					}
					limited, end := context.WithTimeout(context.WithoutCancel(ctx), patience)
					a, err := r.try(limited, l, q)
					end()
					if err != nil || a.err != nil {
						t.Errorf("%s: %v %v", l, err, a.err)
						return
					}
					c.add(a.status)
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
	}
	return counts, func() { cancel(); wg.Wait() }
}

// TestRestart restarts the only router under load. With failure_mode_allow no client
// notices (K: a picker that is unavailable with FailOpen), except in full duplex, where
// Envoy keeps no copy of a body. Without it clients are told to come again. Nobody gets
// a 500.
func TestRestart(t *testing.T) {
	r := newRig(t, options{file: overrideHost, cluster: cluster.Options{Servers: 3}, listeners: func(b *bootstrap) {
		for _, mode := range []string{"FULL_DUPLEX_STREAMED", "STREAMED", "BUFFERED"} {
			for _, allow := range []bool{true, false} {
				b.listen(t, fmt.Sprintf("%s-%t", mode, allow), func(l *listener) {
					l.modes(mode, mode)
					l.extProc["failure_mode_allow"] = allow
				})
			}
		}
	}})
	names := []string{"FULL_DUPLEX_STREAMED-true", "FULL_DUPLEX_STREAMED-false", "STREAMED-true", "STREAMED-false", "BUFFERED-true", "BUFFERED-false"}
	counts, stop := r.load(t, names...)
	all := func(what string, status, more int) {
		t.Helper()
		before := map[string]int{}
		for _, l := range names {
			before[l] = counts[l].of(status)
		}
		kittest.Eventually(t, what, func() bool {
			for _, l := range names {
				if counts[l].of(status) < before[l]+more {
					return false
				}
			}
			return true
		})
	}
	all("answers to come", 200, 20)
	r.Routers[0].Restart(t)
	r.AwaitReady(t, 0)
	all("answers to come again", 200, 20)
	r.Routers[0].Kill()
	kittest.Eventually(t, "clients to be told that there is no picker", func() bool {
		return counts[names[1]].of(503) > 10 && counts[names[3]].of(503) > 10
	})
	r.Routers[0].Start(t)
	r.AwaitReady(t, 0)
	all("answers to come once more", 200, 20)
	stop()
	for i, l := range names {
		t.Logf("%s: %v", l, counts[l].by)
		always := i%2 == 0 && i > 0
		for status, n := range counts[l].by {
			if status != 200 && (always || status != 503) {
				t.Errorf("%s: %d answers with %d", l, n, status)
			}
		}
		if n := r.stat(t, "http."+l+".ext_proc.failure_mode_allowed"); (n > 0) != (i%2 == 0) {
			t.Errorf("%s: Envoy went on %d times without the picker", l, n)
		}
	}
	r.idle(t)
}

// TestHungRouter stops the router without closing its connections, as a machine that is
// lost would: Envoy notices by its keepalive, for it does not heed message_timeout in full
// duplex (B050).
func TestHungRouter(t *testing.T) {
	r := newRig(t, options{file: overrideHost, cluster: cluster.Options{Servers: 2}, listeners: func(b *bootstrap) {
		b.listen(t, "closed", nil)
		b.listen(t, "open", func(l *listener) { l.extProc["failure_mode_allow"] = true })
	}})
	r.echo(t, "closed", request{body: chat(300)})
	r.Routers[0].Signal(t, syscall.SIGSTOP)
	began := time.Now()
	var wg sync.WaitGroup
	for l, want := range map[string]int{"closed": 503, "open": 200} {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			q := request{body: chat(300), headers: map[string]string{headerDo: "echo"}}
			if l == "open" {
				q.method, q.path, q.body = http.MethodGet, "/v1/models", nil
			}
			a, err := r.try(ctx, l, q)
			if err != nil || a.status != want {
				t.Errorf("%s: status %d, error %v", l, a.status, err)
			}
			t.Logf("%s: after %s", l, time.Since(began))
		})
	}
	wg.Wait()
	r.Routers[0].Signal(t, syscall.SIGCONT)
	kittest.Eventually(t, "the router to be asked again", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		a, err := r.try(ctx, "closed", request{body: chat(300), headers: map[string]string{headerDo: "echo"}})
		return err == nil && a.status == http.StatusOK
	})
	r.idle(t)
}

// TestRouterDiesWithinAnAnswer kills the only router while answers are under way. One that
// goes through the router is cut, which the client and the server are told of; one that
// does not goes on.
func TestRouterDiesWithinAnAnswer(t *testing.T) {
	r := newRig(t, options{file: overrideHost, cluster: cluster.Options{Servers: 2}, listeners: func(b *bootstrap) {
		b.listen(t, "through", nil)
		b.listen(t, "past", func(l *listener) {
			l.modes("BUFFERED", "NONE")
			l.extProc["failure_mode_allow"] = true
		})
	}})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	begin := func(listener string) *bufio.Reader {
		req, err := request{body: chat(300), headers: map[string]string{headerDo: "slow"}}.make(ctx, r.url(listener))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := r.h1.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		lines := bufio.NewReader(resp.Body)
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, `"content":"0"`) {
			t.Fatalf("%s: it begins with %q, %v", listener, line, err)
		}
		return lines
	}
	through, past := begin("through"), begin("past")
	r.Routers[0].Kill()
	if _, err := io.Copy(io.Discard, through); err == nil || ctx.Err() != nil {
		t.Errorf("the answer that went through the router ended with %v", err)
	}
	kittest.Eventually(t, "the server to hear of it", func() bool {
		return r.servers.all[0].counted("aborted")+r.servers.all[1].counted("aborted") == 1
	})
	for range 100 {
		if _, err := past.ReadString('\n'); err != nil {
			t.Fatalf("the answer that did not go through the router ended with %v", err)
		}
	}
}
