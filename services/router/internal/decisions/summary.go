package decisions

import (
	"slices"
	"strings"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Summary is what is kept of a decision.
type Summary struct {
	// RequestID, Model and Path are the request's. The path is cut at 256 bytes and
	// made valid UTF-8: the client chooses it, and watchers get it over gRPC.
	RequestID, Model, Path string
	// ClientModel is the model that the client named, if Model took its place.
	ClientModel string
	// Admission is whether the request was let in.
	Admission route.Admission
	// PromptTokens is the prompt's estimated length.
	PromptTokens uint32
	// Endpoints is the size of the roster.
	Endpoints int
	// Time is when it was decided, Elapsed how long that took.
	Time    time.Time
	Elapsed time.Duration
	// Profiles are the profiles that ran.
	Profiles []Profile
	// Endpoint is the pick, nil if there is none; Fallbacks come after it.
	Endpoint  *roster.Endpoint
	Fallbacks []*roster.Endpoint
	// Disaggregation, Stages and Skipped are what route.Plan says; empty without one.
	// SendTo is where the request goes, if not to Endpoint's own address.
	Disaggregation, SendTo string
	Stages                 []Stage
	Skipped                []route.Skip
	// Err says why there is no pick.
	Err string
	// DryRun is true if nothing was reserved.
	DryRun bool
}

// Profile is what is kept of a profile's run.
type Profile struct {
	// Name, Picker and TieBreak are as in route.ProfileResult.
	Name, Picker, TieBreak string
	// Picked are the endpoints of the profile's choice, best first.
	Picked []*roster.Endpoint
	// Total is the pick's weighted sum.
	Total float64
	// Corrected and LeastLoad are as in route.ProfileResult.
	Corrected, LeastLoad bool
	// Scorers are in configuration order.
	Scorers []Scorer
	// Err says why it came to nothing.
	Err string
}

// Stage is what is kept of a stage that other endpoints do.
type Stage struct {
	// Name and Profile are the stage's and that of the profile that picked.
	Name, Profile string
	// Endpoints do the work, and Fallbacks come after them.
	Endpoints, Fallbacks []*roster.Endpoint
}

// Scorer is what is kept of one scorer's part.
type Scorer struct {
	// Plugin, Type, Service and Weight are the configuration's.
	Plugin, Type, Service string
	Weight                float64
	// Verdict, Reason, Elapsed and StateAge are as in route.Scores.
	Verdict  route.Verdict
	Reason   string
	Elapsed  time.Duration
	StateAge time.Duration
	// PickedScore is the score of the pick; negative if it had none.
	PickedScore float32
}

// How much a usual decision has at most.
const usualScorers, usualFallbacks = 3, 3

// usual is a Summary and what that of a usual decision refers to, in one allocation. It
// shares no array with the decision, of which it would keep all alive.
type usual struct {
	summary   Summary
	profiles  [1]Profile
	scorers   [usualScorers]Scorer
	picked    [1]*roster.Endpoint
	fallbacks [usualFallbacks]*roster.Endpoint
}

// Summarise keeps what outlives the request.
func Summarise(d *route.Decision) *Summary {
	u := &usual{}
	s := &u.summary
	*s = Summary{
		RequestID: d.Request.ID, Model: d.Request.Model, ClientModel: d.Request.ClientModel, Admission: d.Admission, Path: shown(d.Request.Path), PromptTokens: d.Request.PromptTokens,
		Endpoints: d.Snapshot.Len(), Time: d.Time, Elapsed: d.Elapsed, Endpoint: d.Endpoint, Fallbacks: append(u.fallbacks[:0], d.Fallbacks...), DryRun: d.DryRun,
		Profiles: slices.Grow(u.profiles[:0], len(d.Results))[:len(d.Results)],
	}
	if d.Err != nil {
		s.Err = d.Err.Error()
	}
	for i, r := range d.Results {
		var scorers []Scorer
		var picked []*roster.Endpoint
		if i == 0 {
			scorers, picked = u.scorers[:0], u.picked[:0]
		}
		s.Profiles[i] = summariseProfile(d, r, scorers, picked)
	}
	s.plan(d)
	return s
}

// plan keeps what other endpoints do.
func (s *Summary) plan(d *route.Decision) {
	p := d.Plan
	if p == nil {
		return
	}
	if to := d.AddressOf(d.Endpoint); to != d.Endpoint.Address {
		s.SendTo = to
	}
	if len(p.Stages)+len(p.Skipped) > 0 {
		s.Disaggregation, s.Skipped = p.Type(), p.Skipped
	}
	for i := range p.Stages {
		g := &p.Stages[i]
		s.Stages = append(s.Stages, Stage{g.Name, g.Result.Profile.Name, g.Endpoints[:g.Picked:g.Picked], g.Endpoints[g.Picked:]})
	}
}

// maxPath is how much of a path is kept.
const maxPath = 256

// shown is what is kept of a path. It shares no memory with a longer one.
func shown(path string) string {
	if len(path) > maxPath {
		path = strings.Clone(path[:maxPath]) + "…"
	}
	return strings.ToValidUTF8(path, "\uFFFD")
}

// summariseProfile keeps what a profile said, in the room given for its scorers and picks as
// far as that goes.
func summariseProfile(d *route.Decision, r *route.ProfileResult, scorers []Scorer, picked []*roster.Endpoint) Profile {
	n := len(r.Profile.Scorers)
	p := Profile{
		Name: r.Profile.Name, Picker: r.Profile.Picker.Name(), TieBreak: r.TieBreak, Corrected: r.Corrected, LeastLoad: r.LeastLoad,
		Scorers: slices.Grow(scorers, n)[:n],
	}
	if r.Err != nil {
		p.Err = r.Err.Error()
	}
	best := -1
	if len(r.Ranked) > 0 {
		best = int(r.Ranked[0])
		p.Total, p.Picked = r.Totals[best], picked
		for _, i := range r.Ranked[:min(len(r.Ranked), r.Profile.Picker.Max())] {
			p.Picked = append(p.Picked, &d.Snapshot.Table.Endpoints[r.Candidates[i]])
		}
	}
	for i, s := range r.Profile.Scorers {
		p.Scorers[i] = Scorer{Plugin: s.Plugin, Type: s.Type, Service: s.Service, Weight: s.Weight, Verdict: route.Skipped, Reason: "not asked", StateAge: -1, PickedScore: -1}
		if i >= len(r.Scores) {
			continue
		}
		got := &r.Scores[i]
		p.Scorers[i].Verdict, p.Scorers[i].Reason, p.Scorers[i].Elapsed, p.Scorers[i].StateAge = got.Verdict, got.Reason, got.Elapsed, got.StateAge
		if v, ok := got.Of(best); ok {
			p.Scorers[i].PickedScore = v
		}
	}
	return p
}
