package grpcapi

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pointsman/pointsman/internal/kit/roster"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/services/router/internal/decisions"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

var verdicts = map[route.Verdict]routerv1.ScorerVerdict{
	route.Scored:    routerv1.ScorerVerdict_SCORER_VERDICT_SCORED,
	route.Abstained: routerv1.ScorerVerdict_SCORER_VERDICT_ABSTAINED,
	route.TimedOut:  routerv1.ScorerVerdict_SCORER_VERDICT_TIMEOUT,
	route.Failed:    routerv1.ScorerVerdict_SCORER_VERDICT_FAILED,
	route.Skipped:   routerv1.ScorerVerdict_SCORER_VERDICT_SKIPPED,
}

// decision puts a summary on the wire and, if the full decision is at hand, every
// candidate with it.
func decision(s *decisions.Summary, full *route.Decision, routerID string, now int64) *routerv1.Decision {
	m := &routerv1.Decision{
		RequestId: s.RequestID, DecideTime: timestamppb.New(s.Time), Elapsed: durationpb.New(s.Elapsed), Model: s.Model, Path: s.Path,
		PromptTokenCount: s.PromptTokens, EndpointCount: uint32(s.Endpoints), Endpoint: endpoint(s.Endpoint), Fallbacks: endpoints(s.Fallbacks), //nolint:gosec // a table's size
		Disaggregation: s.Disaggregation, SendAddress: s.SendTo, SkippedStages: skipped(s.Skipped),
		Error: s.Err, DryRun: s.DryRun, RouterId: routerID, ClientModel: s.ClientModel, Admission: admission(&s.Admission),
	}
	for _, g := range s.Stages {
		m.Stages = append(m.Stages, &routerv1.Stage{Stage: g.Name, Profile: g.Profile, Endpoints: endpoints(g.Endpoints), Fallbacks: endpoints(g.Fallbacks)})
	}
	for i, p := range s.Profiles {
		w := &routerv1.ProfileDecision{Profile: p.Name, Picker: p.Picker, TieBreak: p.TieBreak, Picked: endpoints(p.Picked), Total: p.Total, Error: p.Err, Corrected: p.Corrected, LeastLoad: p.LeastLoad}
		for _, sc := range p.Scorers {
			w.Scorers = append(w.Scorers, scorer(sc))
		}
		if full != nil && i < len(full.Results) {
			w.Candidates = candidates(full, full.Results[i], now)
		}
		m.Profiles = append(m.Profiles, w)
	}
	return m
}

// admission is nil where nobody was asked.
func admission(a *route.Admission) *routerv1.Admission {
	if !a.Asked {
		return nil
	}
	w := &routerv1.Admission{Shed: a.Shed, Priority: a.Priority, Sheddable: a.Sheddable, SheddableBecause: a.Because, Detector: a.Detector, Saturated: a.Saturated}
	if a.Detector != "" {
		w.Saturation = &a.Saturation
	}
	return w
}

func scorer(s decisions.Scorer) *routerv1.ScorerDecision {
	w := &routerv1.ScorerDecision{
		Plugin: s.Plugin, ScorerType: s.Type, Scorer: s.Service, Weight: s.Weight, Verdict: verdicts[s.Verdict], Reason: s.Reason,
		Elapsed: durationpb.New(s.Elapsed), StateAge: age(s.StateAge),
	}
	if s.PickedScore >= 0 {
		v := float64(s.PickedScore)
		w.PickedScore = &v
	}
	return w
}

// candidates shows the fate of every endpoint of the roster in a profile.
func candidates(d *route.Decision, r *route.ProfileResult, now int64) []*routerv1.CandidateDecision {
	snap := d.Snapshot
	all := make([]*routerv1.CandidateDecision, snap.Len())
	for i := range all {
		all[i] = &routerv1.CandidateDecision{
			Endpoint: endpoint(&snap.Table.Endpoints[i]), DroppedBy: "a filter", InFlightRequestCount: count(snap.InFlight(i)),
			WaitingRequestCount: known(snap.Waiting[i]), RunningRequestCount: known(snap.Running[i]), KvCacheUsageRatio: ratio(snap.KV[i]), LoadAge: age(snap.Age(i, now)),
		}
		if i < len(r.DroppedBy) {
			all[i].DroppedBy = r.DroppedBy[i]
		}
	}
	for i, pos := range r.Candidates {
		c := all[pos]
		c.DroppedBy = ""
		if i < len(r.Totals) {
			c.Total = r.Totals[i]
		}
		if i < len(r.InFlight) {
			c.InFlightRequestCount = count(r.InFlight[i])
		}
		for k := range r.Scores {
			c.Scores = append(c.Scores, candidateScore(&r.Scores[k], i, r.Profile.Scorers[k].Weight))
		}
	}
	return all
}

func candidateScore(s *route.Scores, i int, weight float64) *routerv1.CandidateScore {
	w := &routerv1.CandidateScore{Text: s.Texts[uint32(i)]} //nolint:gosec // an index
	v, own := s.Of(i)
	if !own {
		w.Abstained = true
		v = float32(s.Neutral)
	}
	w.Raw, w.Weighted = float64(v), float64(v)*weight
	if i < len(s.Matched) {
		w.MatchedBlockCount = &s.Matched[i]
	}
	return w
}

func endpoint(e *roster.Endpoint) *routerv1.PickedEndpoint {
	if e == nil {
		return nil
	}
	return &routerv1.PickedEndpoint{EndpointId: string(e.ID), Address: e.Address}
}

func endpoints(es []*roster.Endpoint) []*routerv1.PickedEndpoint {
	ws := make([]*routerv1.PickedEndpoint, len(es))
	for i, e := range es {
		ws[i] = endpoint(e)
	}
	return ws
}

func known(figure int32) *uint32 {
	if figure < 0 {
		return nil
	}
	v := uint32(figure)
	return &v
}

func ratio(figure float32) *float64 {
	if figure < 0 {
		return nil
	}
	v := float64(figure)
	return &v
}

func count(n int64) uint32 { return uint32(max(0, min(n, 1<<31))) } //nolint:gosec // bounded

// age leaves out what is not known.
func age(d time.Duration) *durationpb.Duration {
	if d < 0 {
		return nil
	}
	return durationpb.New(d)
}
