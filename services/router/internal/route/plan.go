package route

import (
	"net"
	"strconv"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// Names of stages.
const (
	StagePrefill = "prefill"
	StageEncode  = "encode"
)

// Work is what an endpoint does for a request.
type Work uint8

// Kinds of work.
const (
	WorkAll     Work = iota // prefill and decode: nothing happens elsewhere
	WorkDecode              // decode; the prompt is prefilled by another endpoint
	WorkPrefill             // prefill for another endpoint
	WorkEncode              // encode media for another endpoint
)

// Planner is a Handler whose requests may be served by several endpoints, or through
// another port than the endpoint's own.
type Planner interface {
	Handler
	// Work says what the endpoint that res has just ranked first is to do. It is asked
	// once per profile that picks, with the scores of res at hand and before the pick is
	// reserved, so that its tokens are counted where they are prefilled. It must be
	// quick: no other pick is made meanwhile.
	Work(c *Cycle, done []*ProfileResult, res *ProfileResult) Work
	// Plan says what is to happen besides the primary result, which has an endpoint. It is
	// asked once, after Primary. Of its stages it fills in Name, Result and Endpoints, of
	// those that Result has ranked, at least one; the rest is not its business. An error means
	// that the request cannot be served as the configuration demands, and wraps one of the
	// errors of a Decision.
	Plan(c *Cycle, done []*ProfileResult, primary *ProfileResult) (*Plan, error)
}

// Plan is how a request is served by several endpoints: Decision.Endpoint decodes, and
// the stages happen before or meanwhile. It is immutable once made.
type Plan struct {
	// Stages are what happens elsewhere, in order: encode, then prefill. None: Endpoint
	// does everything by itself.
	Stages []Stage
	// Skipped are the stages that the configuration has and Stages has not, and why.
	Skipped []Skip
	// Policy is what to do when a stage fails. Never nil; shared, not to be changed.
	Policy *Policy
	// Connector is how a stage's result gets to Endpoint.
	Connector Connector
	// PrimaryPort, if not 0, is the port at which all data-parallel ranks of a server are
	// reached: see Decision.AddressOf.
	PrimaryPort uint16

	primary Reservation // of Endpoint alone; nil for a dry run
}

// Stage is work for a request that another endpoint does.
type Stage struct {
	// Name is StagePrefill or StageEncode.
	Name string
	// Result is the run of the profile that chose the endpoints.
	Result *ProfileResult
	// Endpoints are ranked, best first; at least one. The first Picked do the work, the
	// others are to fall back on.
	Endpoints []*roster.Endpoint
	// Picked is how many endpoints share the work, at least 1; more only for StageEncode.
	Picked int
	// Reservation is that of Endpoints[0]; nil for a dry run. Finish it when the stage is
	// done, Move it when another endpoint is tried. It ends with Decision.Reservation at
	// the latest, so that nothing leaks if neither is done.
	Reservation Reservation
}

// Stage returns the stage of that name, nil if there is none. The plan may be nil.
func (p *Plan) Stage(name string) *Stage {
	if p == nil {
		return nil
	}
	for i := range p.Stages {
		if p.Stages[i].Name == name {
			return &p.Stages[i]
		}
	}
	return nil
}

// Type returns in a word which stages there are: "decode-only", "prefill-decode",
// "encode-decode", "encode-prefill-decode". The plan may be nil.
func (p *Plan) Type() string {
	encode, prefill := p.Stage(StageEncode) != nil, p.Stage(StagePrefill) != nil
	switch {
	case encode && prefill:
		return "encode-prefill-decode"
	case encode:
		return "encode-decode"
	case prefill:
		return "prefill-decode"
	default:
		return "decode-only"
	}
}

// AddressOf returns where to send the request so that the endpoint decodes it: to its
// own address, or to the port at which all ranks of its server are reached. In the
// latter case the header x-data-parallel-host-port must name the endpoint's own.
func (d *Decision) AddressOf(e *roster.Endpoint) string {
	if d.Plan == nil || d.Plan.PrimaryPort == 0 || d.Plan.PrimaryPort == e.Port {
		return e.Address
	}
	return net.JoinHostPort(e.Host, strconv.Itoa(int(d.Plan.PrimaryPort)))
}

// TakeOver gives a stage up, one of d.Plan.Stages: its reservation ends, and its work is
// counted at the endpoint that decodes from now on, which has to do it too. The plan
// stays as it was decided. Safe for concurrent use; a second call does nothing.
func (d *Decision) TakeOver(s *Stage) {
	if s.Reservation != nil {
		s.Reservation.Finish(false, NoUsage())
	}
	if s.Name == StagePrefill {
		prefillHere(d.Plan.primary)
	}
}

// LocalPrefiller is implemented by reservations with WorkDecode that can be told that
// the endpoint has to prefill the prompt after all.
type LocalPrefiller interface {
	// PrefillHere counts the prompt's tokens at the endpoint. Only the first call counts.
	PrefillHere()
}

// Unseen is implemented by reservations of stages of which it can be said that nobody will
// tell when the work is done.
type Unseen interface {
	// EndsUnseen has the reservation end when the work is believed to be done, if it has
	// not ended before. streams says that the first token of the answer will be told as it
	// comes.
	EndsUnseen(streams bool)
}

// LeftToProxy tells the stages' reservations that it is a proxy who carries the plan out, so
// that nobody will tell when a stage is done. A front that has a proxy do that calls it,
// once.
func (d *Decision) LeftToProxy() {
	if d.Plan == nil {
		return
	}
	for i := range d.Plan.Stages {
		if u, ok := d.Plan.Stages[i].Reservation.(Unseen); ok {
			u.EndsUnseen(d.Request.Streams)
		}
	}
}

func prefillHere(r Reservation) {
	if p, ok := r.(LocalPrefiller); ok {
		p.PrefillHere()
	}
}

// plan asks the handler for its plan, if it has any, and completes it.
func (f *frame) plan(primary *ProfileResult) error {
	d := &f.decision
	h, ok := d.Config.Handler.(Planner)
	if !ok {
		return nil
	}
	p, err := h.Plan(&f.cycle, d.Results, primary)
	if err != nil || p == nil {
		return err
	}
	for i := range p.Stages {
		s := &p.Stages[i]
		s.Reservation = s.Result.Reservation
		if pos, _ := s.Result.Best(); s.Reservation != nil && s.Endpoints[0] != &d.Snapshot.Table.Endpoints[pos] {
			s.Reservation.Move(s.Endpoints[0]) // the pick cannot work with the primary's
		}
		s.Picked = 1
		if s.Name == StageEncode {
			s.Picked = max(1, min(len(s.Endpoints), s.Result.Profile.Picker.Max()))
		}
	}
	for _, r := range d.Results { // what ran and is not needed
		if r != primary && r.Reservation != nil && !p.uses(r) {
			r.Reservation.Finish(false, NoUsage())
			r.Reservation = nil
		}
	}
	p.primary = primary.Reservation
	if primary.Work == WorkDecode && p.Stage(StagePrefill) == nil {
		prefillHere(p.primary)
	}
	d.Plan = p
	return nil
}

func (p *Plan) uses(r *ProfileResult) bool {
	for i := range p.Stages {
		if p.Stages[i].Result == r {
			return true
		}
	}
	return false
}
