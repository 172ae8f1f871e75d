package httpproxy

import (
	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// stageWatcher keeps the books on a stage while it goes on.
type stageWatcher struct {
	p  *Proxy
	x  *exchange // whose attempt it is for
	d  *route.Decision
	s  *route.Stage
	on roster.ID // whom the reservation is on
}

// PrefillBegins moves the reservation to where the work is. Whoever decodes is not to
// blame for the time.
func (w *stageWatcher) PrefillBegins(e disagg.Endpoint) {
	w.x.dog.pause()
	if roster.ID(e.ID) == w.on || w.s.Reservation == nil {
		return
	}
	for _, to := range w.s.Endpoints {
		if string(to.ID) == e.ID {
			w.on = to.ID
			w.s.Reservation.Move(to)
		}
	}
}

// PrefillEnds ends it when the work is done, and tells the quarantine how it went.
func (w *stageWatcher) PrefillEnds(a disagg.Attempt) {
	w.x.dog.resume()
	w.p.metrics.leg(a)
	if w.p.staged(a) {
		return // it is moved, taken over, or ends with the decision's
	}
	if w.s.Reservation != nil {
		w.s.Reservation.Finish(a.Reason == disagg.OK, route.Usage{PromptTokens: a.PromptTokens, CachedPromptTokens: a.CachedTokens, OutputTokens: -1})
	}
}

// PrefillsHere has the work counted at the endpoint that decodes.
func (w *stageWatcher) PrefillsHere(disagg.Reason) {
	w.d.TakeOver(w.s)
	w.p.metrics.stages.Local(w.s.Name, route.ReasonStageFailed)
}

// staged tells the quarantine how an endpoint did that was to do a stage's work, and
// whether it failed.
func (p *Proxy) staged(a disagg.Attempt) (failed bool) {
	id := roster.ID(a.Endpoint.ID)
	switch a.Reason {
	case disagg.OK, disagg.Refused:
		p.quarantine.Succeeded(id)
	case disagg.Abandoned, disagg.Cancelled: // it is not to blame
	default:
		why := string(a.Reason)
		if a.Err != nil {
			why = a.Err.Error()
		}
		p.quarantine.Failed(id, why)
		return true
	}
	return false
}
