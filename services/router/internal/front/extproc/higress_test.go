package extproc

import (
	"context"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/epconfig"
	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

// counts answers when it is told to, with the last of those it is asked about.
type counts struct{ asked, answer chan struct{} }

func (c *counts) Reserve(_ context.Context, ids []roster.ID, _ int64, _ bool) (int, route.Place, error) {
	close(c.asked)
	<-c.answer
	return len(ids) - 1, c, nil
}

func (*counts) Release() {}

// Higress A19: a request without a body, whose end comes with its headers. The reference
// waits for a body that never comes, until somebody gives up. Here the counts of all
// routers are asked for at once; nothing is said to the proxy before they answer, and then
// the endpoint that they chose.
func TestHigressA19WithoutABodyCountsAreAskedFor(t *testing.T) {
	loaded, err := epconfig.Load("test", []byte(header+`
plugins: [{type: global-least-request-picker}, {type: single-profile-handler}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: global-least-request-picker}]}]
`), epconfig.Deps{Scorers: scorers{}})
	if err != nil {
		t.Fatal(err)
	}
	c := &counts{make(chan struct{}), make(chan struct{})}
	pool := routetest.Roster(t, routetest.Pod{Port: 8080}, routetest.Pod{Port: 8080})
	l := &ledger{r: pool}
	s, err := route.NewScheduler(route.Deps{Roster: pool, Fan: scorers{}, Ledger: l, Counts: c})
	if err != nil {
		t.Fatal(err)
	}
	s.Use(loaded.Config)
	r := newRig(t, func(r *rig, _ *Config) { r.roster, r.decider = pool, s })
	p := r.duplex()
	p.headers("GET", "/v1/models", true)
	<-c.asked
	close(c.answer)
	p.to("192.168.1.2:8080") // the first thing that is said
	p.finish()
	if got := r.count("decisions_total", "basis", "headers"); got != 1 {
		t.Errorf("%d decisions by headers", got)
	}
	r.ended("ok", 1)
	kittest.Eventually(t, "the reservation ends", func() bool { return l.reserved() == 0 })
}

// Higress F17: the answer of a request for which nothing was chosen. Its headers and its
// body go on as they are, and nothing is counted.
func TestHigressF17AnswersToWhatWasNotRouted(t *testing.T) {
	r := newRig(t)
	p := r.duplex()
	p.answer(200, false, "content-type", "text/plain")
	if h := p.recv().GetResponseHeaders(); h == nil || len(h.GetResponse().GetHeaderMutation().GetSetHeaders()) != 0 {
		t.Errorf("the headers were answered with %v", h)
	}
	p.answerBody("as it is", true)
	if m := p.recv().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse(); string(m.GetBody()) != "as it is" || !m.GetEndOfStream() {
		t.Errorf("the body became %v", m)
	}
	p.finish()
	if r.decided() != 0 || len(r.reservations) != 0 {
		t.Errorf("%d decisions, %d reservations", r.decided(), len(r.reservations))
	}
}
