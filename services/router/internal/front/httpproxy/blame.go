package httpproxy

import (
	"slices"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
)

// fetched returns whom the last attempt, at the endpoint e, was to fetch the prompt from.
func (x *exchange) fetched(e *roster.Endpoint) (handover, bool) {
	if x.legs.of != x.decision || x.legs.run == nil {
		return handover{}, false
	}
	by := x.legs.run.Report().HandedBy
	return handover{roster.ID(by.ID), e.ID}, by != disagg.Endpoint{}
}

// blame tells the quarantine of an endpoint that has failed before its first byte. Where it
// was to fetch the prompt from another one and has answered with a failure, or not at all,
// it may be the other one's fault.
func (x *exchange) blame(e *roster.Endpoint, why *fault) {
	p, fetches := x.fetched(e)
	if fetches && (why.why == edge.BadAnswer || why.why == edge.FirstByteTimeout) {
		x.suspect(p)
		return
	}
	reason := ""
	if s := x.saved; why.why == edge.BadAnswer && s != nil && s.from == e {
		reason = s.header.Get(edge.HeaderReason)
	}
	if who := edge.Culprit(x.decision, e, reason); who != nil {
		x.p.quarantine.Failed(who.ID, why.err.Error())
	}
}

// judge tells the quarantine how an endpoint does that has begun to answer.
func (x *exchange) judge(a *answer) {
	status := a.resp.StatusCode
	p, fetches := x.fetched(a.from)
	switch failed := slices.Contains(x.p.cfg.RetryStatuses, status); {
	case failed && fetches:
		x.suspect(p)
		return
	case failed:
		if who := edge.Culprit(x.decision, a.from, a.resp.Header.Get(edge.HeaderReason)); who != nil {
			x.p.quarantine.Failed(who.ID, a.resp.Status)
		}
		return
	}
	x.p.quarantine.Succeeded(a.from.ID)
	switch {
	case status >= 400: // says nothing of where the prompt was
	case fetches:
		x.p.convict(x.p.suspects.worked(p))
	default:
		for _, p := range x.suspected {
			if p.decode == a.from.ID {
				x.p.convict(x.p.suspects.alone(p))
			}
		}
	}
}

// suspect notes that a handover has failed.
func (x *exchange) suspect(p handover) {
	x.suspected = append(x.suspected, p)
	x.p.metrics.transfers.Add(x.ctx, 1)
	x.p.convict(x.p.suspects.failed(p))
}

// convict tells the quarantine who is to blame for prompts that did not arrive.
func (p *Proxy) convict(who []culprit) {
	for _, c := range who {
		role, why := 0, "what it should have fetched from others did not arrive"
		if c.prefill {
			role, why = 1, "what others should have fetched from it did not arrive"
		}
		p.metrics.blamed(role)
		p.quarantine.Failed(c.id, why)
	}
}
