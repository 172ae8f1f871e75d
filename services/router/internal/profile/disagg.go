package profile

import (
	"errors"
	"slices"
	"strings"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Type names of Disagg. PDType is the older one, with other parameters.
const (
	DisaggType = "disagg-profile-handler"
	PDType     = "pd-profile-handler"
)

// DisaggConfig is what a Disagg does.
type DisaggConfig struct {
	// Decode is the name of the profile whose pick is the request's endpoint. REQUIRED.
	Decode string
	// Prefill and Encode are the profiles of the stages. Empty: there is no such stage.
	Prefill, Encode string
	// Fallback is the profile whose pick serves a request all by itself when the decode
	// profile comes to nothing. Empty: there is none.
	Fallback string
	// PrefillDecider and EncodeDecider say which requests have the stage. Nil: none has;
	// with PrefillFirst every request is prefilled elsewhere, and PrefillDecider not asked.
	PrefillDecider, EncodeDecider Decider
	// PrefillFirst picks the endpoint that prefills before the one that decodes.
	PrefillFirst bool
	// Connector is how stages are carried out. Empty: as the endpoint's engine does it.
	Connector route.Connector
	// PrimaryPort is that of data-parallel ranks behind one port; 0: each rank is reached
	// at its own.
	PrimaryPort uint16
	// Policy is what to do when a stage fails.
	Policy route.Policy
}

// PrefillsHere is true if there are requests that the endpoint which decodes has to prefill
// too: those that a decider declines, and those that nobody else could prefill.
func (c *DisaggConfig) PrefillsHere() bool {
	elsewhere := c.Prefill != "" && (c.PrefillFirst || always(c.PrefillDecider))
	return !elsewhere || c.Policy.Prefill.Falls()
}

// Disagg has requests prefilled, and media encoded, by other endpoints than decode them.
type Disagg struct {
	name string
	cfg  DisaggConfig
}

var _ route.Planner = (*Disagg)(nil)

// NewDisagg returns a handler.
func NewDisagg(name string, cfg DisaggConfig) (*Disagg, error) {
	if cfg.Decode == "" {
		return nil, errors.New("profiles.decode is empty; it names the profile that picks the endpoint")
	}
	return &Disagg{name: name, cfg: cfg}, nil
}

// Name returns the plug-in's name in the configuration.
func (h *Disagg) Name() string { return h.name }

// Config returns what the handler does.
func (h *Disagg) Config() DisaggConfig { return h.cfg }

// Next returns one profile at a time. Each stage's decider is asked with what is known by
// then: it is a pure function, so that asking it again gives the same.
func (h *Disagg) Next(c *route.Cycle, profiles []*route.Profile, done []*route.ProfileResult) []*route.Profile {
	decode := ran(done, h.cfg.Decode)
	if h.cfg.PrefillFirst && decode == nil {
		if next := h.stage(c, profiles, done, nil); next != nil {
			return next
		}
	}
	if decode == nil {
		return named(profiles, h.cfg.Decode)
	}
	if _, picked := decode.Best(); !picked {
		if h.cfg.Fallback != "" && ran(done, h.cfg.Fallback) == nil {
			return named(profiles, h.cfg.Fallback)
		}
		return nil
	}
	if h.cfg.PrefillFirst {
		return nil
	}
	return h.stage(c, profiles, done, decode)
}

// stage returns the profile of the next stage that is to be done elsewhere; nil if all
// such have run.
func (h *Disagg) stage(c *route.Cycle, profiles []*route.Profile, done []*route.ProfileResult, decode *route.ProfileResult) []*route.Profile {
	order := [2]string{route.StageEncode, route.StagePrefill}
	if h.cfg.PrefillFirst {
		order[0], order[1] = order[1], order[0]
	}
	for _, stage := range order {
		name := h.profileOf(stage)
		if name == "" || ran(done, name) != nil || !h.verdict(c, stage, decode).Yes {
			continue
		}
		return named(profiles, name)
	}
	return nil
}

func (h *Disagg) profileOf(stage string) string {
	if stage == route.StageEncode {
		return h.cfg.Encode
	}
	return h.cfg.Prefill
}

// verdict says whether a stage is to be done elsewhere.
func (h *Disagg) verdict(c *route.Cycle, stage string, decode *route.ProfileResult) Verdict {
	decider := h.cfg.PrefillDecider
	if stage == route.StageEncode {
		decider = h.cfg.EncodeDecider
	}
	switch {
	case !splittable(c.Request.Path):
		v := no("the request's API is not served in stages")
		v.Reason = route.ReasonCapability
		return v
	case stage == route.StagePrefill && h.givenUp(c, decode):
		v := no(wordsGivenUp)
		v.Reason = route.ReasonStageFailed
		return v
	case stage == route.StagePrefill && h.cfg.PrefillFirst:
		return yes()
	case decider == nil:
		v := no("no decider is configured for it")
		v.Reason = route.ReasonNoDecider
		return v
	}
	return decider.Decide(c, decode)
}

// maxHanded is how many attempts with what another endpoint has prefilled may fail at the
// endpoints that decode. It may be the transfer that fails, of which they do not tell: the
// next one prefills by itself, if the policy lets it.
const maxHanded = 2

const wordsGivenUp = "what was prefilled elsewhere did not arrive"

// givenUp is true for a request that is to be prefilled where it is decoded because what
// others have prefilled for it did not arrive: twice, or at the endpoint that decode has
// picked again because nobody else is left.
func (h *Disagg) givenUp(c *route.Cycle, decode *route.ProfileResult) bool {
	r := c.Request.Retry
	if r == nil || r.Handed == 0 || !h.cfg.Policy.Prefill.Falls() {
		return false
	}
	if r.Handed >= maxHanded {
		return true
	}
	pos, picked := decode.Best()
	return picked && slices.Contains(r.Failed, c.Snapshot.Table.Endpoints[pos].ID)
}

// splittable is true for the APIs whose requests prefill and decode. A request without a
// path may be one.
func splittable(path string) bool {
	if path == "" {
		return true
	}
	path = strings.TrimSuffix(path, "/")
	for _, api := range [...]string{"/completions", "/responses", "/messages", "/inference/v1/generate"} {
		if strings.HasSuffix(path, api) {
			return true
		}
	}
	return false
}

// Primary returns the decode profile's result, or the fall-back's if that alone has an
// endpoint.
func (h *Disagg) Primary(_ *route.Cycle, done []*route.ProfileResult) (*route.ProfileResult, error) {
	decode := ran(done, h.cfg.Decode)
	if _, picked := decode.Best(); !picked && h.cfg.Fallback != "" {
		fallback := ran(done, h.cfg.Fallback)
		if _, picked := fallback.Best(); picked {
			return fallback, nil
		}
	}
	return decode, nil
}

// Work implements route.Planner.
func (h *Disagg) Work(c *route.Cycle, done []*route.ProfileResult, res *route.ProfileResult) route.Work {
	switch res.Profile.Name {
	case h.cfg.Prefill:
		return route.WorkPrefill
	case h.cfg.Encode:
		return route.WorkEncode
	case h.cfg.Decode:
		if h.cfg.Prefill == "" || !h.verdict(c, route.StagePrefill, res).Yes {
			return route.WorkAll
		}
		if _, prefilled := ran(done, h.cfg.Prefill).Best(); h.cfg.PrefillFirst && !prefilled {
			return route.WorkAll
		}
		return route.WorkDecode
	}
	return route.WorkAll
}

// ran returns the result of the profile of that name, nil if it has not run.
func ran(done []*route.ProfileResult, name string) *route.ProfileResult {
	for _, r := range done {
		if r.Profile.Name == name {
			return r
		}
	}
	return nil
}

// named returns the profile of that name alone; nil if there is none.
func named(profiles []*route.Profile, name string) []*route.Profile {
	for i, p := range profiles {
		if p.Name == name {
			return profiles[i : i+1 : i+1]
		}
	}
	return nil
}
