package workload

import (
	"errors"
	"fmt"
	"time"
)

// Config describes a workload.
type Config struct {
	// Seed decides everything. Default 1.
	Seed uint64
	// Sessions is the number of conversations. Default 100.
	Sessions int
	// SessionRate is how many begin per second, at random times (a Poisson process). 0 makes all begin at once.
	// Default 4.
	SessionRate float64
	// FinalRate, if above 0, is the rate that SessionRate has climbed or fallen to, evenly, by the last session. It needs a
	// SessionRate. Default 0: the rate stays.
	FinalRate float64
	// Model is the model that the requests name. Default "sim-model".
	Model string
	// Adapters are LoRA adapters; AdapterShare of all sessions, 0 to 1, name one of them, evenly, in place of Model.
	// Default none.
	Adapters     []string
	AdapterShare float64
	// SystemPrompts is the number of different system prompts; 0 means that sessions have none. Default 8.
	SystemPrompts int
	// SystemSkew favours some of them: prompt k is taken with weight 1/k^SystemSkew. Default 1; 0 is even.
	SystemSkew float64
	// SystemTokens, FirstTokens, TurnTokens and AnswerTokens are the sizes, in tokens, of system prompts, of the first
	// text of a session, of further texts, and of answers. The defaults are those of a chat service: medians 500, 60, 40
	// and 150, with long tails.
	SystemTokens, FirstTokens, TurnTokens, AnswerTokens Quantiles
	// Turns is the number of requests of a session. Default 1 to 12, median 4.
	Turns Quantiles
	// ThinkSeconds is the pause between an answer and the next text. Default 1 to 30, median 5.
	ThinkSeconds Quantiles
}

// DefaultConfig returns the defaults named at each field.
func DefaultConfig() Config {
	return Config{
		Seed:          1,
		Sessions:      100,
		SessionRate:   4,
		Model:         "sim-model",
		SystemPrompts: 8,
		SystemSkew:    1,
		SystemTokens:  Quantiles{{0, 100}, {0.5, 500}, {0.9, 1500}, {1, 3000}},
		FirstTokens:   Quantiles{{0, 5}, {0.5, 60}, {0.9, 800}, {1, 4000}},
		TurnTokens:    Quantiles{{0, 3}, {0.5, 40}, {0.9, 300}, {1, 1000}},
		AnswerTokens:  Quantiles{{0, 5}, {0.5, 150}, {0.9, 400}, {1, 1000}},
		Turns:         Quantiles{{0, 1}, {0.5, 4}, {1, 12}},
		ThinkSeconds:  Quantiles{{0, 1}, {0.5, 5}, {1, 30}},
	}
}

// Validate reports all faults of c at once.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(c.Sessions > 0, "workload Sessions %d: must be positive", c.Sessions)
	check(c.SessionRate >= 0, "workload SessionRate %v: must not be negative", c.SessionRate)
	check(c.FinalRate >= 0, "workload FinalRate %v: must not be negative", c.FinalRate)
	check(c.FinalRate == 0 || c.SessionRate > 0, "workload FinalRate %v: there is no SessionRate to begin with", c.FinalRate)
	check(c.Model != "", "workload Model: must not be empty")
	check(c.AdapterShare >= 0 && c.AdapterShare <= 1, "workload AdapterShare %v: must be from 0 to 1", c.AdapterShare)
	check(c.AdapterShare == 0 || len(c.Adapters) > 0, "workload AdapterShare %v: there are no Adapters", c.AdapterShare)
	check(c.SystemPrompts >= 0, "workload SystemPrompts %d: must not be negative", c.SystemPrompts)
	check(c.SystemSkew >= 0, "workload SystemSkew %v: must not be negative", c.SystemSkew)
	for _, q := range []struct {
		name string
		q    Quantiles
		low  float64
	}{
		{"SystemTokens", c.SystemTokens, 1},
		{"FirstTokens", c.FirstTokens, 1},
		{"TurnTokens", c.TurnTokens, 1},
		{"AnswerTokens", c.AnswerTokens, 1},
		{"Turns", c.Turns, 1},
		{"ThinkSeconds", c.ThinkSeconds, 0},
	} {
		if err := q.q.Validate(q.low); err != nil {
			faults = append(faults, fmt.Errorf("workload %s: %w", q.name, err))
		}
	}
	return errors.Join(faults...)
}

// rate is how many sessions begin per second when session i does.
func (c *Config) rate(i int) float64 {
	if c.FinalRate == 0 {
		return c.SessionRate
	}
	return c.SessionRate + (c.FinalRate-c.SessionRate)*float64(i)/float64(max(1, c.Sessions-1))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
