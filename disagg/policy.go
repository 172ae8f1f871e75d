package disagg

import (
	"context"
	"net/http"
	"time"
)

// failure is true for a prefill leg that did not do what it was for, where it could have.
func failure(r Reason) bool {
	switch r {
	case OK, Abandoned, Cancelled:
		return false
	}
	return true
}

// again is true if the same endpoint may do better the next time.
func again(a *Attempt) bool {
	switch a.Reason {
	case BadStatus:
		return a.Status == http.StatusBadGateway || a.Status == http.StatusServiceUnavailable || a.Status == http.StatusGatewayTimeout
	case ConnectFailed, Reset, Timeout, NoBootstrap:
		return true
	}
	return false
}

// start notes when the first prefill leg is sent.
func (x *Run) start() {
	if x.began.IsZero() {
		x.began = time.Now()
	}
}

// note takes over how a prefill leg went.
func (x *Run) note(r *result) { x.report.Attempts = append(x.report.Attempts, r.Attempt) }

// settle follows the policy after a prefill leg that did not do what it was for. With
// neither an answer nor an error the request goes on: by the next prefill leg, or, if
// x.local, without one.
func (x *Run) settle(ctx context.Context, r *result) (*http.Response, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if r.Reason == Refused {
		return x.relay(r), nil
	}
	x.failed++
	tried := x.plan.Prefill[x.at]
	retry := again(&r.Attempt)
	for x.at++; x.at < len(x.plan.Prefill) && x.plan.Prefill[x.at].ID == tried.ID && !retry; {
		x.at++
	}
	left := x.at < len(x.plan.Prefill)
	switch x.plan.Policy.after(x.failed, time.Since(x.began), left) {
	case RetryOther:
		if x.plan.Prefill[x.at].ID == tried.ID {
			return nil, pause(ctx, x.plan.Policy.Backoff)
		}
		return nil, nil
	case LocalPrefill:
		x.local = true
		x.report.Reason = r.Reason
		x.w.PrefillsHere(r.Reason)
		return nil, nil
	}
	x.at = len(x.plan.Prefill) - 1
	if r.answer != nil {
		return x.relay(r), nil
	}
	x.report.Reason = r.Reason
	return nil, &PrefillError{r.Attempt}
}

// relay makes the answer of a prefill leg the client's.
func (x *Run) relay(r *result) *http.Response {
	x.report.Served, x.report.Reason, x.report.AnsweredBy = ByPrefillAlone, r.Reason, r.Endpoint
	return r.answer
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
