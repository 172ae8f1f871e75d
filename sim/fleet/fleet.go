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
}

// DefaultConfig returns the defaults named at each field.
func DefaultConfig() Config {
	return Config{Engines: 8, Engine: engine.DefaultConfig(), ScrapeInterval: 50 * time.Millisecond}
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
	return errors.Join(append(faults, c.Engine.Validate())...)
}

// Fleet is a number of equal engines in one virtual time. It is not safe for concurrent use, and runs once.
type Fleet struct {
	cfg      Config
	engines  []*engine.Engine
	pending  []map[engine.ID]sent // by engine
	due      []time.Duration      // when each engine next has something to do, or never
	turns    turnHeap
	seen     []engine.Stats
	rescrape time.Duration // when the next scrape is due
	sent     int
	policy   Policy
	report   Report
}

const never = time.Duration(1<<63 - 1)

// sent is a request at an engine.
type sent struct {
	Request
	session *workload.Session
	turn    workload.Turn
	seed    uint64
}

// New returns an idle fleet.
func New(cfg Config) (*Fleet, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f := &Fleet{cfg: cfg, seen: make([]engine.Stats, cfg.Engines), due: make([]time.Duration, cfg.Engines)}
	for i := range cfg.Engines {
		e, err := engine.New(cfg.Engine)
		if err != nil {
			return nil, fmt.Errorf("engine %d: %w", i, err)
		}
		f.engines = append(f.engines, e)
		f.pending = append(f.pending, make(map[engine.ID]sent))
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
	if i < 0 || i >= len(f.engines) {
		return fmt.Errorf("request %d: the policy picked engine %d of %d", r.Number, i, len(f.engines))
	}
	seed := token.Sum(r.Prompt)
	q := engine.Request{Adapter: r.Adapter, Prompt: r.Prompt,
		Output: token.AppendAnswer(nil, seed, t.turn.AnswerTokens, token.Sentence), MaxTokens: t.turn.AnswerTokens}
	id := f.engines[i].Submit(t.at, q)
	r.Prompt = nil
	f.pending[i][id] = sent{Request: r, session: t.session, turn: t.turn, seed: seed}
	f.due[i] = t.at // not advanced at once: others that are due now share the step
	return nil
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
		if ev.Kind != engine.Finished && ev.Kind != engine.Rejected {
			continue
		}
		s := f.pending[i][ev.ID]
		delete(f.pending[i], ev.ID)
		result := Result{Request: s.Request, Engine: i, Reason: ev.Reason, Tokens: ev.Tokens}
		if ev.Timing != nil {
			result.Timing = *ev.Timing
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
