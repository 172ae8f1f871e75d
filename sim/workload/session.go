package workload

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/pointsman/pointsman/sim/token"
)

// Generator makes the sessions of a workload.
type Generator struct {
	cfg    Config
	starts []time.Duration
	system []string  // the system prompts
	upTo   []float64 // and the cumulative weight of each
}

// The streams of random numbers that follow from one seed.
const (
	streamStarts = iota
	streamSystem
	streamSessions // and one per session from here on
)

// New returns the generator of the workload that cfg describes.
func New(cfg Config) (*Generator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Generator{cfg: cfg, starts: make([]time.Duration, cfg.Sessions)}
	rng := rand.New(rand.NewPCG(cfg.Seed, streamStarts))
	if cfg.SessionRate > 0 {
		at := 0.0
		for i := range g.starts {
			at += rng.ExpFloat64() / cfg.rate(i)
			g.starts[i] = seconds(at)
		}
	}
	rng = rand.New(rand.NewPCG(cfg.Seed, streamSystem))
	weight := 0.0
	for k := range cfg.SystemPrompts {
		g.system = append(g.system, token.Text(rng.Uint64(), int(cfg.SystemTokens.At(rng.Float64())), token.Sentence))
		weight += math.Pow(float64(k+1), -cfg.SystemSkew)
		g.upTo = append(g.upTo, weight)
	}
	return g, nil
}

// Sessions is the number of sessions.
func (g *Generator) Sessions() int { return len(g.starts) }

// Session makes session i, 0 ≤ i < Sessions(), at its beginning.
func (g *Generator) Session(i int) *Session {
	rng := rand.New(rand.NewPCG(g.cfg.Seed, streamSessions+uint64(i)))
	s := &Session{Number: i, Start: g.starts[i], Model: g.cfg.Model, cfg: &g.cfg, rng: rng}
	s.left = int(g.cfg.Turns.At(rng.Float64()))
	if n := len(g.cfg.Adapters); rng.Float64() < g.cfg.AdapterShare {
		s.Model, s.Adapter = g.cfg.Adapters[rng.IntN(n)], true
	}
	if len(g.system) > 0 {
		u := rng.Float64() * g.upTo[len(g.upTo)-1]
		k := 0
		for g.upTo[k] < u {
			k++
		}
		s.System = k
		s.history = append(s.history, Message{Role: "system", Content: g.system[k]})
	}
	return s
}

// Session is one conversation. It is not safe for concurrent use.
type Session struct {
	// Number is the session's position in the workload.
	Number int
	// Start is when its first request is due, since the beginning of the workload.
	Start time.Duration
	// Model is what its requests name: the workload's model or an adapter.
	Model string
	// Adapter says that Model is an adapter.
	Adapter bool
	// System is which of the system prompts it has.
	System int

	cfg     *Config
	rng     *rand.Rand
	left    int
	index   int
	history []Message
}

// Message is one message of a chat.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Turn is one request of a session.
type Turn struct {
	// Session and Index, from 0, say which one.
	Session, Index int
	// Model is the model or adapter to name.
	Model string
	// Messages is the whole conversation so far; the last is the new text. It must not be changed.
	Messages []Message
	// AnswerTokens is how long the answer is meant to be.
	AnswerTokens int
	// Think is the pause between the answer before and this request; 0 for the first.
	Think time.Duration
}

// Next returns the session's next turn. ok is false when it is over.
func (s *Session) Next() (turn Turn, ok bool) {
	if s.left == 0 {
		return Turn{}, false
	}
	s.left--
	size, think := s.cfg.TurnTokens, s.cfg.ThinkSeconds
	if s.index == 0 {
		size, think = s.cfg.FirstTokens, Always(0)
	}
	text := token.Text(s.rng.Uint64(), int(size.At(s.rng.Float64())), token.Sentence)
	s.history = append(s.history, Message{Role: "user", Content: text})
	turn = Turn{
		Session: s.Number, Index: s.index, Model: s.Model, Messages: s.history[:len(s.history):len(s.history)],
		AnswerTokens: int(s.cfg.AnswerTokens.At(s.rng.Float64())),
		Think:        seconds(think.At(s.rng.Float64())),
	}
	s.index++
	return turn, true
}

// Answer tells the session what was answered to its last turn. The next one quotes it.
func (s *Session) Answer(text string) {
	s.history = append(s.history, Message{Role: "assistant", Content: text})
}
