package httpproxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// B146: one of two hosts refuses connections. A retry goes to the other, and whoever
// decides hears of it, so that later requests do not try it at all.
func TestB146RetryExcludesTheFailedEndpoint(t *testing.T) {
	three := with(func(c *Config) { c.Retries = 3 })
	r := newRig(t, []http.Handler{nil, answer200("x")}, three)
	for range 10 {
		if got := r.chat(); got.status != 200 || got.body != "x" {
			t.Fatal(got)
		}
	}
	if f := r.failures(); len(f) != 1 || !strings.HasPrefix(f[0], "e0:") || r.value("retries_total", "reason", "connect-failed") != 1 {
		t.Errorf("told of %q, retries %v; want one of each for e0", f, r.value("retries_total"))
	}
	r.outcome()
	if diff := cmp.Diff([]roster.ID{"e0", "e1"}, r.reservations[0].on); diff != "" || len(r.reservations) != 10 {
		t.Errorf("%d reservations, the first on %s", len(r.reservations), diff)
	}
	for i, res := range r.reservations[1:] {
		if len(res.on) != 1 || res.on[0] != "e1" {
			t.Errorf("request %d was on %v", i+2, res.on)
		}
	}
}

// B146, where whoever decides does not listen: a request does not come back to the
// endpoint that it failed on, however many retries it has left.
func TestB146NoRequestTriesAnEndpointTwice(t *testing.T) {
	var tries atomic.Int64
	bad := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tries.Add(1)
		abort().ServeHTTP(w, r)
	})
	for _, fallbacks := range []int{0, 10} {
		tries.Store(0)
		r := newRig(t, []http.Handler{bad, bad}, func(r *rig, c *Config) {
			r.fallbacks, c.Retries, r.deaf = fallbacks, 3, true
			r.decide = func(context.Context) {
				r.mu.Lock()
				r.failed = nil
				r.mu.Unlock()
			}
		})
		want := int64(min(fallbacks, 1) + 1)
		if got := r.chat(); got.status != 502 || tries.Load() != want {
			t.Errorf("%d fall-backs: status %d after %d tries of 2 endpoints, want %d", fallbacks, got.status, tries.Load(), want)
		}
	}
}

// B151: 30 % of requests are broken off before or after their first token. Each has one
// reservation, which is ended once (the rig checks that), and moves if it is tried
// again; those that were broken off after their first token do not count as completed.
func TestB151ResetsLeaveNothingReserved(t *testing.T) {
	const requests = 200
	var tried sync.Map
	engine := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, again := tried.LoadOrStore(string(body), true)
		var n int
		fmt.Sscanf(string(body), `{"model":"m","stream":true,"prompt":"%d"}`, &n)
		switch {
		case n%10 == 0 && !again: // before the head
			panic(http.ErrAbortHandler)
		case n%10 == 1 && !again: // after the head
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case n%10 == 2: // after the first token
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default:
			io.WriteString(w, "{}")
		}
	})
	r := newRig(t, []http.Handler{engine, engine}, func(r *rig, _ *Config) {
		r.decide = func(context.Context) { // nobody stays out, so that there is always a fall-back
			r.mu.Lock()
			r.failed = nil
			r.mu.Unlock()
		}
	})
	c := client(t)
	var wg sync.WaitGroup
	for from := range 4 {
		wg.Go(func() {
			for i := from; i < requests; i += 4 {
				r.send(c, "POST", "/v1/completions", strings.NewReader(fmt.Sprintf(`{"model":"m","stream":true,"prompt":"%d"}`, i)))
			}
		})
	}
	wg.Wait()
	r.settled()
	// Some break on a connection that was kept, and are repeated where they were.
	resets := r.value("retries_total", "reason", "reset")
	if kept := r.value("retries_total", "reason", "stale-connection"); resets == 0 || resets+kept != requests/5 {
		t.Errorf("%v and %v retries, want %d together", resets, kept, requests/5)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var completed, moved int
	for _, res := range r.reservations {
		if res.completed {
			completed++
		}
		moved += len(res.on) - 1
	}
	if want := requests / 10 * 9; len(r.reservations) != requests || completed != want || moved != int(resets) {
		t.Errorf("%d reservations, %d completed, %d moved; want %d, %d, %v", len(r.reservations), completed, moved, requests, want, resets)
	}
}

// B153: many requests at once that all bring the same x-request-id. Each gets its own
// answer and has its own reservation.
func TestB153ManyRequestsWithOneID(t *testing.T) {
	const requests = 200
	r := newRig(t, []http.Handler{echo(), echo()})
	c := client(t)
	var wg sync.WaitGroup
	for i := range requests {
		wg.Go(func() {
			body := fmt.Sprintf(`{"model":"m","prompt":"%d%s"}`, i, strings.Repeat("x", 10_000))
			got := r.send(c, "POST", "/v1/completions", strings.NewReader(body), "X-Request-Id", "the-same")
			if got.err != nil || got.status != 200 || got.body != body || got.header.Get("X-Request-Id") != "the-same" {
				t.Errorf("request %d: status %d, %d bytes, id %q, error %v", i, got.status, len(got.body), got.header.Get("X-Request-Id"), got.err)
			}
		})
	}
	wg.Wait()
	r.counted(requests, "2xx", "ok")
	r.settled()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.reservations) != requests || len(r.failed) != 0 {
		t.Errorf("%d reservations for %d requests, failed %v", len(r.reservations), requests, r.failed)
	}
}

// A client is not given a token that sends it back to the endpoint that failed it.
func TestNoSessionTokenWithAFailure(t *testing.T) {
	for status, want := range map[int]bool{http.StatusOK: true, http.StatusNotFound: true, http.StatusNotImplemented: false} {
		r := newRig(t, []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })}, func(r *rig, _ *Config) { r.sessions = []string{"x-session-token"} })
		got := r.do(http.MethodPost, "/v1/completions", `{"model":"m","prompt":"p"}`)
		if given := got.header.Get("x-session-token") != ""; got.status != status || given != want {
			t.Errorf("status %d: token given %t, want %t", got.status, given, want)
		}
	}
}
