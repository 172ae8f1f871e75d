package fleet

import (
	"container/heap"
	"errors"
	"fmt"
	"time"

	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/token"
	"github.com/pointsman/pointsman/sim/workload"
)

// Config describes a fleet.
type Config struct {
	// Engines is their number. Default 8.
	Engines int
	// Engine is the configuration of each. Default engine.DefaultConfig().
	Engine engine.Config
	// ScrapeInterval is how often the figures that the policy sees are renewed. 0 means that they are always new.
	// Default 50 ms.
	ScrapeInterval time.Duration
	// TransferBase and TransferRate are what the transfer of a prompt from one engine to another takes, and its speed in
	// tokens per second. An engine sends one prompt at a time. Defaults 2 ms, and 150,000: 128 KiB for a token, as an 8B
	// model has, over a link of 200 Gb/s.
	TransferBase time.Duration
	TransferRate float64
	// KeepGaps keeps the time before every token in the results. Default false.
	KeepGaps bool
}

// DefaultConfig returns the defaults named at each field.
func DefaultConfig() Config {
	return Config{Engines: 8, Engine: engine.DefaultConfig(), ScrapeInterval: 50 * time.Millisecond,
		TransferBase: 2 * time.Millisecond, TransferRate: 150_000}
}

// Validate reports all faults of c at once.
func (c Config) Validate() error {
	var faults []error
	if c.Engines < 1 {
		faults = append(faults, fmt.Errorf("fleet Engines %d: must be positive", c.Engines))
	}
	if c.ScrapeInterval < 0 {
		faults = append(faults, fmt.Errorf("fleet ScrapeInterval %v: must not be negative", c.ScrapeInterval))
	}
	if c.TransferBase < 0 {
		faults = append(faults, fmt.Errorf("fleet TransferBase %v: must not be negative", c.TransferBase))
	}
	if !(c.TransferRate > 0) {
		faults = append(faults, fmt.Errorf("fleet TransferRate %v: must be positive", c.TransferRate))
	}
	return errors.Join(append(faults, c.Engine.Validate())...)
}

// Fleet is a number of equal engines in one virtual time. It is not safe for concurrent use, and runs once.
type Fleet struct {
	cfg       Config
	engines   []*engine.Engine
	pending   []map[engine.ID]*sent // by engine
	due       []time.Duration       // when each engine next has something to do, or never
	turns     turnHeap
	arrivals  arrivalHeap
	link      []time.Duration // until when each engine sends prompts
	seen      []engine.Stats
	rescrape  time.Duration // when the next scrape is due
	sent      int
	transfers int // prompts sent so far
	policy    Policy
	report    Report
}

const never = time.Duration(1<<63 - 1)

// sent is a request at an engine.
type sent struct {
	Request
	session *workload.Session
	turn    workload.Turn
	seed    uint64
	query   engine.Request
	since   time.Duration
	decode  int       // where it goes after this engine has computed its prompt; none if nowhere
	prefill int       // which engine has computed its prompt; none if this one does
	holds   engine.ID // as whom, there
	gaps    []time.Duration
}

// none is no engine.
const none = -1

// New returns an idle fleet.
func New(cfg Config) (*Fleet, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f := &Fleet{cfg: cfg, seen: make([]engine.Stats, cfg.Engines), due: make([]time.Duration, cfg.Engines), link: make([]time.Duration, cfg.Engines)}
	for i := range cfg.Engines {
		e, err := engine.New(cfg.Engine)
		if err != nil {
			return nil, fmt.Errorf("engine %d: %w", i, err)
		}
		f.engines = append(f.engines, e)
		f.pending = append(f.pending, make(map[engine.ID]*sent))
		f.due[i] = never
	}
	return f, nil
}

// Run puts the whole workload to the fleet and returns when every request has ended. A session of which a request was
// rejected ends there. The error tells of a policy that picked an engine that is not there.
func (f *Fleet) Run(g *workload.Generator, p Policy) (*Report, error) {
	f.policy = p
	for i := range g.Sessions() {
		s := g.Session(i)
		f.schedule(s, s.Start)
	}
	for {
		i, at := f.firstDue()
		if len(f.arrivals) > 0 && f.arrivals[0].at <= at && (len(f.turns) == 0 || f.arrivals[0].at <= f.turns[0].at) {
			a := heap.Pop(&f.arrivals).(arrival)
			f.scrape(a.at)
			f.arrive(a)
			continue
		}
		if len(f.turns) > 0 && f.turns[0].at <= at {
			t := heap.Pop(&f.turns).(dueTurn)
			f.scrape(t.at)
			if err := f.send(t); err != nil {
				return nil, err
			}
			continue
		}
		if at == never {
			break
		}
		f.scrape(at)
		f.advance(i, at)
	}
	for _, e := range f.engines {
		f.report.Engines = append(f.report.Engines, e.Stats())
	}
	return &f.report, nil
}

// schedule makes the session's next turn due after its think time.
func (f *Fleet) schedule(s *workload.Session, at time.Duration) {
	if turn, ok := s.Next(); ok {
		heap.Push(&f.turns, dueTurn{at: at + turn.Think, session: s, turn: turn})
	}
}

// firstDue returns the engine that has something to do first, the first of equals.
func (f *Fleet) firstDue() (int, time.Duration) {
	first := 0
	for i, at := range f.due {
		if at < f.due[first] {
			first = i
		}
	}
	return first, f.due[first]
}

func (f *Fleet) send(t dueTurn) error {
	r := Request{Number: f.sent, Session: t.session.Number, Turn: t.turn.Index, Prompt: t.turn.AppendTokens(nil)}
	if t.session.Adapter {
		r.Adapter = t.session.Model
	}
	f.sent++
	i := f.policy.Pick(t.at, r, f.seen)
	first, decode := i, none
	if s, ok := f.policy.(Splitter); ok && i >= 0 && i < len(f.engines) {
		if p, apart := s.Prefill(t.at, r, i, f.seen); apart {
			first, decode = p, i
		}
	}
	if first < 0 || first >= len(f.engines) || first == decode {
		return fmt.Errorf("request %d: the policy picked engine %d of %d", r.Number, first, len(f.engines))
	}
	seed := token.Sum(r.Prompt)
	q := engine.Request{Adapter: r.Adapter, Prompt: r.Prompt,
		Output: token.AppendAnswer(nil, seed, t.turn.AnswerTokens, token.Sentence), MaxTokens: t.turn.AnswerTokens}
	r.Prompt = nil
	f.submit(first, t.at, &sent{Request: r, session: t.session, turn: t.turn, seed: seed, query: q, since: t.at, decode: decode, prefill: none})
	return nil
}

// submit hands a request to engine i, for the whole of it or for its prompt alone.
func (f *Fleet) submit(i int, at time.Duration, s *sent) {
	q := s.query
	switch {
	case s.decode != none:
		q.MaxTokens, q.Hold = 1, true
	case s.prefill != none:
		q.Remote = len(q.Prompt)
	}
	f.pending[i][f.engines[i].Submit(at, q)] = s
	f.due[i] = at // not advanced at once: others that are due now share the step
}

// scrape renews what the policy sees if a scrape was due by now, which is the time of the next thing to happen. Nothing has
// changed since the last thing, so the figures are those of the scrape's own time.
func (f *Fleet) scrape(now time.Duration) {
	if now < f.rescrape {
		return
	}
	for i, e := range f.engines {
		f.seen[i] = e.Stats()
	}
	if every := f.cfg.ScrapeInterval; every > 0 {
		f.rescrape = now - now%every + every
	}
}

// advance lets time pass at one engine and takes what ends there.
func (f *Fleet) advance(i int, now time.Duration) {
	for _, ev := range f.engines[i].Advance(now) {
		switch {
		case ev.Kind == engine.Fetching:
			f.transfer(i, ev)
		case ev.Kind == engine.NextToken && f.cfg.KeepGaps:
			s := f.pending[i][ev.ID]
			s.gaps = append(s.gaps, ev.Since)
		}
		if ev.Kind != engine.Finished && ev.Kind != engine.Rejected {
			continue
		}
		s := f.pending[i][ev.ID]
		delete(f.pending[i], ev.ID)
		if s.decode != none && ev.Reason == engine.Length {
			f.policy.(Splitter).Prefilled(ev.At, s.Request, i)
			decode := s.decode
			s.decode, s.prefill, s.holds = none, i, ev.ID
			f.submit(decode, ev.At, s)
			continue
		}
		result := Result{Request: s.Request, Engine: i, Prefill: s.prefill, Reason: ev.Reason, Tokens: ev.Tokens, Gaps: s.gaps}
		if ev.Timing != nil {
			result.Timing = *ev.Timing
			result.Timing.Submitted = s.since
		}
		f.report.Results = append(f.report.Results, result)
		f.report.Duration = max(f.report.Duration, ev.At)
		f.policy.Ended(ev.At, result)
		if ev.Kind == engine.Finished {
			s.session.Answer(token.Text(s.seed, ev.Tokens, token.Sentence))
			f.schedule(s.session, ev.At)
		}
	}
	f.due[i] = never
	if at, ok := f.engines[i].Next(); ok {
		f.due[i] = at
	}
}
