package system

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

// What prefill servers do wrong, what clients hear under each policy, and that nothing is
// left behind. Every row has a router of its own, whose quarantine and counts are fresh.
func TestPDFailures(t *testing.T) {
	const (
		retryThenLocal = ", prefillTimeout: 600ms, prefillBudget: 1s"
		fail           = ", onPrefillFailure: Fail, prefillTimeout: 600ms, prefillBudget: 1s"
		retryThenFail  = ", onPrefillFailure: RetryOther, prefillTimeout: 600ms, prefillBudget: 1s"
	)
	p := startPD(t, 2, 2, cluster.Options{ConfigText: fmt.Sprintf(pdConfig, byPrefix, retryThenLocal)})
	for _, c := range []struct {
		name   string
		policy string
		faults modelserver.Faults
		status int
		legs   map[string]float64 // prefill legs by how they ended
		local  float64            // requests that the decode server prefilled
		decode uint64             // requests at decode servers
		kept   int                // prompts that were computed, and of which nobody heard
	}{
		{"a 500, another, then here", retryThenLocal, modelserver.Faults{ErrorProbability: 1}, 200, map[string]float64{"bad-status": 2}, 1, 1, 0},
		{"a 503, Fail", fail, modelserver.Faults{ErrorProbability: 1, ErrorStatus: 503}, 503, map[string]float64{"bad-status": 1}, 0, 0, 0},
		{"a 500, another, Fail", retryThenFail, modelserver.Faults{ErrorProbability: 1}, 500, map[string]float64{"bad-status": 2}, 0, 0, 0},
		{"E13: a 429 is the client's to hear", retryThenLocal, modelserver.Faults{ErrorProbability: 1, ErrorStatus: 429}, 429, map[string]float64{"refused": 1}, 0, 0, 0},
		{"a 400, Fail", fail, modelserver.Faults{ErrorProbability: 1, ErrorStatus: 400}, 400, map[string]float64{"refused": 1}, 0, 0, 0},
		{"hanging, then here", retryThenLocal, modelserver.Faults{HangProbability: 1}, 200, map[string]float64{"timeout": 2}, 1, 1, 0},
		{"hanging, Fail", fail, modelserver.Faults{HangProbability: 1}, 504, map[string]float64{"timeout": 1}, 0, 0, 0},
		{"B173: an error in a 200", retryThenLocal, modelserver.Faults{EmptyPrefillProbability: 1}, 200, map[string]float64{"reported-error": 2}, 1, 1, 0},
		{"half an answer", retryThenLocal, modelserver.Faults{StreamDropProbability: 1}, 200, nil, 1, 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			router := p.addRouter(t, fmt.Sprintf(pdConfig, byPrefix, c.policy))
			fault(t, p.prefill, c.faults)
			defer fault(t, p.prefill, modelserver.Faults{})
			before, begin := requests(p.decode), time.Now()
			a := p.ask(t, router, p.cold())
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("it took %v, the budget is 1 s", took)
			}
			if a.status != c.status {
				t.Errorf("status %d, want %d: %s", a.status, c.status, a.body)
			}
			if got := requests(p.decode) - before; got != c.decode {
				t.Errorf("%d requests at decode servers, want %d", got, c.decode)
			}
			for reason, n := range c.legs {
				if got := p.Metric(t, router, legsOf, fmt.Sprintf("reason=%q", reason)); got != n {
					t.Errorf("%v prefill legs ended with %s, want %v", got, reason, n)
				}
			}
			if got := p.Metric(t, router, decodeOnly, `reason="stage-failed"`); got != c.local {
				t.Errorf("%v requests were prefilled where they are decoded, want %v", got, c.local)
			}
			p.kept += c.kept
			p.nothingLeft(t)
			// Whoever failed is well again.
			fault(t, p.prefill, modelserver.Faults{})
			kittest.Eventually(t, "prompts to be prefilled elsewhere again", func() bool {
				b := p.ask(t, router, p.cold())
				return b.status == http.StatusOK && b.is(p.decode) && p.Metric(t, router, legsOf, `reason="ok"`) > 0
			})
			p.nothingLeft(t)
		})
	}
	t.Run("E16: one of two fails, the other one prefills", func(t *testing.T) {
		router := p.addRouter(t, fmt.Sprintf(pdConfig, byPrefix, retryThenFail))
		fault(t, p.prefill[:1], modelserver.Faults{ErrorProbability: 1})
		defer fault(t, p.prefill, modelserver.Faults{})
		kittest.Eventually(t, "the failing one to be picked", func() bool {
			if a := p.ask(t, router, p.cold()); a.status != http.StatusOK || !a.is(p.decode) {
				t.Fatalf("status %d: %s", a.status, a.body)
			}
			return p.Metric(t, router, legsOf, `reason="bad-status"`) > 0
		})
		if p.Metric(t, router, decodeOnly, "") != 0 || p.Metric(t, router, legsOf, `reason="ok"`) == 0 {
			t.Error("a prompt was prefilled where it is decoded, though there was another prefill server")
		}
		p.nothingLeft(t)
	})
	for name, f := range map[string]modelserver.Faults{
		"breaks": {TransferDropProbability: 1}, "is refused": {TransferRefuseProbability: 1}, "hangs": {TransferHangProbability: 1},
	} {
		t.Run("the transfer "+name, func(t *testing.T) { p.transferFails(t, fmt.Sprintf(pdConfig, byPrefix, retryThenLocal), f) })
	}
	t.Run("the client leaves", func(t *testing.T) { p.clientLeaves(t) })
	t.Run("killed", func(t *testing.T) {
		p.killed(t, fmt.Sprintf(pdConfig, byPrefix, retryThenLocal), fmt.Sprintf(pdConfig, byPrefix, fail))
	})
}

// transferFails: the decode server learns that the prompt will not come, and says so, as
// vLLM does, by a 500; or waits for it in vain. The router decides anew, and after a second
// one has a server that decodes do all by itself: for that reason, and not because it is
// believed to hold the prompt. To blame is who prefilled, once two have fetched from it in
// vain; those who decode go on as before.
func (p *pd) transferFails(t *testing.T, config string, f modelserver.Faults) {
	const failures, blames = "pointsman_router_http_transfer_failures_total", "pointsman_router_http_transfer_blames_total"
	router := p.addRouter(t, config, "listen.http.firstByteTimeout=1500ms", "listen.http.retryTimeouts=true")
	lost := func() (n uint64) {
		for _, s := range p.prefill {
			x := s.Transfers()
			n += x.Broken + x.Refused
		}
		return n
	}
	fault(t, p.prefill, f)
	defer fault(t, p.prefill, modelserver.Faults{})
	before, decoded := lost(), requests(p.decode)
	a := p.ask(t, router, p.cold())
	if !a.is(p.decode) || a.status != http.StatusOK {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	if n := requests(p.decode) - decoded; n != 3 {
		t.Errorf("%d requests at decode servers, want two that fetch and one that does not", n)
	}
	if all, why := p.Metric(t, router, decodeOnly, ""), p.Metric(t, router, decodeOnly, `reason="stage-failed"`); all != 1 || why != 1 {
		t.Errorf("%v requests were prefilled where they are decoded, %v of them because the stage failed, want 1", all, why)
	}
	if n, whole := p.Metric(t, router, decided, `type="prefill-decode"`), p.Metric(t, router, decided, `type="decode-only"`); n != 2 || whole != 1 {
		t.Errorf("%v decisions to prefill elsewhere and %v not to, want 2 and 1", n, whole)
	}
	if n, decode := p.Metric(t, router, failures, ""), p.Metric(t, router, blames, `role="decode"`); n != 2 || decode != 0 {
		t.Errorf("%v failures, %v decode servers blamed, want 2 and none", n, decode)
	}
	if n := p.Metric(t, router, "pointsman_router_http_prefill_legs_total", `reason="ok"`); n != 2 {
		t.Errorf("%v prefill legs", n)
	}
	e, err := p.Router(t, router).ListEndpoints(t.Context(), &routerv1.ListEndpointsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	blamed := 0.0
	for _, s := range e.GetEndpoints() {
		decodes := slices.ContainsFunc(p.decode, func(d *modelserver.Server) bool { return d.Address() == s.GetEndpoint().GetAddress() })
		if out := s.GetQuarantineReason(); out != "" {
			if blamed++; decodes {
				t.Errorf("a decode server is in quarantine: %s", out)
			}
		}
	}
	if n := p.Metric(t, router, blames, `role="prefill"`); n != blamed {
		t.Errorf("%v prefill servers blamed, %v in quarantine", n, blamed)
	}
	fault(t, p.prefill, modelserver.Faults{})
	p.kept += int(lost() - before) // of what did not get through nobody tells the server
	p.nothingLeft(t)
}

func (p *pd) clientLeaves(t *testing.T) {
	fault(t, p.prefill, modelserver.Faults{HangProbability: 1})
	defer fault(t, p.prefill, modelserver.Faults{})
	slow := *p.client
	slow.Timeout = 300 * time.Millisecond
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL(0)+"/v1/completions", bytes.NewReader(p.body(p.cold(), false)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := slow.Do(req)
	if err == nil {
		_ = resp.Body.Close()
		t.Fatalf("status %d", resp.StatusCode)
	}
	p.nothingLeft(t)
}

// killed ends the prefill servers one after the other. They do not come back.
func (p *pd) killed(t *testing.T, local, fail string) {
	both, none := p.addRouter(t, local), p.addRouter(t, fail)
	if err := p.prefill[0].Kill(); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the dead one to be picked", func() bool {
		if a := p.ask(t, both, p.cold()); a.status != http.StatusOK || !a.is(p.decode) {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
		return p.Metric(t, both, legsOf, `reason="connect-failed"`) > 0
	})
	if p.Metric(t, both, decodeOnly, `reason="stage-failed"`) != 0 {
		t.Error("the other prefill server was not tried")
	}
	if err := p.prefill[1].Kill(); err != nil {
		t.Fatal(err)
	}
	if a := p.ask(t, both, p.cold()); a.status != http.StatusOK || !a.is(p.decode) {
		t.Errorf("nobody prefills: status %d: %s", a.status, a.body)
	}
	if p.Metric(t, both, decodeOnly, `reason="stage-failed"`)+p.Metric(t, both, decodeOnly, `reason="no-endpoint"`) != 1 {
		t.Error("metrics do not say that the request was served without a prefill server")
	}
	if a := p.ask(t, none, p.cold()); a.status != http.StatusBadGateway && a.status != http.StatusServiceUnavailable {
		t.Errorf("nobody prefills, Fail: status %d: %s", a.status, a.body)
	}
	p.AwaitIdle(t)
}
