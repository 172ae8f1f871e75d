package envoy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
)

// disconnects has clients leave in every phase of a request (B048, B053): whatever was
// reserved for them is given back, once, and the server hears of it.
func (r *rig) disconnects(t *testing.T, w way) {
	// leave sends a request and leaves when told to.
	leave := func(t *testing.T, q request, body io.ReadCloser, until func(resp *http.Response)) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		req, err := q.make(ctx, r.url(w.name))
		if err != nil {
			t.Fatal(err)
		}
		if body != nil {
			req.Body, req.ContentLength = body, -1
		}
		began := make(chan *http.Response, 1)
		go func() {
			resp, err := r.h1.Do(req)
			if err == nil {
				began <- resp
			}
			close(began)
		}()
		if until == nil {
			kittest.Eventually(t, "the router to have the request", func() bool { return r.Metric(t, 0, "pointsman_router_extproc_requests_in_flight", "") == 1 })
			cancel()
			_ = body.Close() // the client waits for what reads it
			if resp := <-began; resp != nil {
				resp.Body.Close()
			}
			return
		}
		resp := <-began
		if resp == nil {
			t.Fatal("no answer")
		}
		until(resp)
		cancel()
		resp.Body.Close()
	}
	aborted := func() int {
		n := 0
		for _, s := range r.servers.all {
			n += s.counted("aborted")
		}
		return n
	}
	t.Run("after the headers", func(t *testing.T) {
		body, end := io.Pipe()
		defer end.Close()
		leave(t, request{body: []byte{}, headers: map[string]string{headerDo: "echo"}}, body, nil)
		r.idle(t)
	})
	t.Run("in the middle of the body", func(t *testing.T) {
		body, more := io.Pipe()
		defer more.Close()
		go func() { _, _ = more.Write(chat(100_000)[:90_000]) }()
		leave(t, request{body: []byte{}, headers: map[string]string{headerDo: "echo"}}, body, nil)
		r.idle(t)
	})
	if w.whole {
		return // the client sees nothing before the end
	}
	t.Run("in the middle of the answer", func(t *testing.T) {
		mark, before := r.mark(t), aborted()
		left := time.Now()
		leave(t, request{body: chat(300), headers: map[string]string{headerDo: "slow"}}, nil, func(resp *http.Response) {
			if _, err := io.ReadFull(resp.Body, make([]byte, 120)); err != nil {
				t.Error(err)
			}
			left = time.Now()
		})
		kittest.Eventually(t, "the server to hear of it", func() bool { return aborted() == before+1 })
		t.Logf("the server heard of it within %s", time.Since(left))
		o := r.outcomes.since(t, mark, 1)[0]
		if o.finished.GetCompleted() && w.response != "NONE" {
			t.Error("the request is said to have completed")
		}
	})
}

// resets has servers break off: the client sees an error, never an answer that looks
// complete, and nothing stays reserved (B055).
func (r *rig) resets(t *testing.T, w way) {
	t.Run("before the answer", func(t *testing.T) {
		mark := r.mark(t)
		a := r.send(t, w.name, request{body: chat(300), headers: map[string]string{headerDo: "reset"}})
		if a.status != http.StatusServiceUnavailable {
			t.Errorf("status %d", a.status)
		}
		r.idle(t)
		for _, o := range r.outcomes.least(t, mark, 1) { // another server may have been tried
			if o.finished.GetCompleted() {
				t.Errorf("%s is said to have completed the request", o.endpoint)
			}
		}
	})
	t.Run("in the middle of the answer", func(t *testing.T) {
		mark := r.mark(t)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		a, err := r.try(ctx, w.name, request{body: chat(300), headers: map[string]string{headerDo: "half"}})
		if errors.Is(err, context.DeadlineExceeded) || err == nil && a.err == nil && a.status == http.StatusOK {
			t.Errorf("status %d, error %v: %q", a.status, err, a.body)
		}
		if o := r.outcomes.since(t, mark, 1)[0]; o.finished.GetCompleted() && w.response != "NONE" {
			t.Error("the request is said to have completed")
		}
	})
	t.Run("with an answer before the request has ended", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		a, err := r.try(ctx, w.name, request{body: chat(5_000_000), headers: map[string]string{headerDo: "early"}})
		if errors.Is(err, context.DeadlineExceeded) || err == nil && a.status != http.StatusRequestEntityTooLarge && a.status != http.StatusServiceUnavailable {
			t.Errorf("status %d, error %v: %.200q", a.status, err, a.body)
		}
	})
}
