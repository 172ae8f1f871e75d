package profile

import (
	"context"
	"errors"
	"fmt"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Plan implements route.Planner.
func (h *Disagg) Plan(c *route.Cycle, done []*route.ProfileResult, primary *route.ProfileResult) (*route.Plan, error) {
	pos, _ := primary.Best()
	to := &c.Snapshot.Table.Endpoints[pos]
	p := &route.Plan{Policy: &h.cfg.Policy, Connector: h.connector(to), PrimaryPort: h.cfg.PrimaryPort}
	for _, stage := range [...]string{route.StageEncode, route.StagePrefill} {
		if h.profileOf(stage) == "" {
			continue
		}
		s, skip, err := h.stagePlan(c, stage, done, primary, to)
		switch {
		case err != nil:
			return nil, err
		case s != nil:
			p.Stages = append(p.Stages, *s)
		default:
			p.Skipped = append(p.Skipped, skip)
		}
	}
	return p, nil
}

// stagePlan returns a stage, or why there is none, or why there must be one.
func (h *Disagg) stagePlan(c *route.Cycle, stage string, done []*route.ProfileResult, primary *route.ProfileResult, to *roster.Endpoint) (*route.Stage, route.Skip, error) {
	skip := route.Skip{Stage: stage, PromptTokens: -1, CachedTokens: -1}
	if primary.Profile.Name != h.cfg.Decode {
		skip.Reason, skip.Words = route.ReasonFallback, "profile "+h.cfg.Decode+" came to nothing"
		return nil, skip, nil
	}
	res := ran(done, h.profileOf(stage))
	if stage == route.StagePrefill && h.givenUp(c, primary) {
		skip.Reason, skip.Words = route.ReasonStageFailed, wordsGivenUp
		return nil, skip, nil
	}
	if res == nil {
		decode := primary
		if h.cfg.PrefillFirst {
			decode = nil
		}
		v := h.verdict(c, stage, decode)
		skip.Reason, skip.Words, skip.PromptTokens, skip.CachedTokens = v.Reason, v.Words, v.PromptTokens, v.CachedTokens
		return nil, skip, nil
	}
	pick, picked := res.Best()
	if !picked {
		return nil, failed(&skip, res.Err), h.refuse(stage, res.Err)
	}
	if &c.Snapshot.Table.Endpoints[pick] == to {
		skip.Reason = route.ReasonSameEndpoint
		return nil, skip, nil
	}
	s := &route.Stage{Name: stage, Result: res}
	for _, at := range res.Ranked {
		if e := &c.Snapshot.Table.Endpoints[res.Candidates[at]]; e != to && together(e, to) {
			s.Endpoints = append(s.Endpoints, e)
		}
	}
	if len(s.Endpoints) == 0 {
		skip.Reason, skip.Words = route.ReasonCapability, "its endpoints run another engine than the one that decodes"
		return nil, skip, h.refuse(stage, fmt.Errorf("%w: %s", route.ErrNoEndpoint, skip.Words))
	}
	return s, skip, nil
}

// failed completes a skip whose profile came to nothing.
func failed(skip *route.Skip, err error) route.Skip {
	skip.Reason = route.ReasonProfileFailed
	if errors.Is(err, route.ErrNoEndpoint) {
		skip.Reason = route.ReasonNoEndpoint
	}
	if err != nil {
		skip.Words = err.Error()
	}
	return *skip
}

// refuse returns why a request without the stage is not served; nil if it is.
func (h *Disagg) refuse(stage string, err error) error {
	switch {
	case err == nil:
		err = route.ErrNoEndpoint
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err // nobody waits any more
	}
	if h.cfg.Policy.Of(stage).Falls() {
		return nil
	}
	return fmt.Errorf("stage %s is to be done elsewhere or not at all: %w", stage, err)
}

// together is true if what one endpoint makes can be used by the other.
func together(a, b *roster.Endpoint) bool {
	return a.Engine == "" || b.Engine == "" || a.Engine == b.Engine
}

// engineSGLang is what endpoints that run SGLang call their engine.
const engineSGLang = "sglang"

// connector is how stages are carried out for the endpoint.
func (h *Disagg) connector(to *roster.Endpoint) route.Connector {
	switch {
	case h.cfg.Connector != "":
		return h.cfg.Connector
	case to.Engine == engineSGLang:
		return route.ConnectorSGLang
	default:
		return route.ConnectorNIXL
	}
}
