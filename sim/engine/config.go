package engine

import (
	"errors"
	"fmt"
	"time"
)

// Config says how large and how fast the modelled engine is.
type Config struct {
	// BlockSize is the number of tokens in a KV-cache block. Default 16, as vLLM.
	BlockSize int
	// NumBlocks is the number of KV-cache blocks in GPU memory. Default 8192 (131,072 tokens).
	NumBlocks int
	// MaxRunning is the most requests in the running batch (vLLM's max_num_seqs). Default 256.
	MaxRunning int
	// MaxWaiting is the most requests in the waiting queue; more are rejected. Default 0: no limit, as vLLM.
	MaxWaiting int
	// MaxStepTokens is the token budget of a step, prefill and decode together (vLLM's max_num_batched_tokens); at least
	// MaxRunning. Default 2048.
	MaxStepTokens int
	// MaxModelLen is the most tokens of prompt and answer together; longer requests are rejected. 0 means all that the
	// KV cache holds. Default 32,768.
	MaxModelLen int
	// PrefillRate is the speed of prefill in tokens per second of uncached prompt. Default 16,000 (an 8B model on a
	// current GPU).
	PrefillRate float64
	// StepBase is what every step takes, whatever is in it. Default 10 ms.
	StepBase time.Duration
	// StepPerRequest is what each decoding request adds to a step. Default 60 µs.
	StepPerRequest time.Duration
	// StepPerContextToken is what each token that a decoding request attends to, of its prompt and its answer so far, adds
	// to a step: the time to read its keys and values. Default 0.
	StepPerContextToken time.Duration
	// DisablePrefixCache makes every prompt be computed from its start. Default false.
	DisablePrefixCache bool
	// MaxAdapters is the most different LoRA adapters in a batch, and the number of adapter slots in GPU memory (vLLM's
	// max_loras). 0, the default, rejects requests that name an adapter.
	MaxAdapters int
	// AdapterLoad is what loading an adapter into a slot adds to the step that first uses it. Default 50 ms.
	AdapterLoad time.Duration
}

// DefaultConfig returns the defaults named at each field.
func DefaultConfig() Config {
	return Config{
		BlockSize:      16,
		NumBlocks:      8192,
		MaxRunning:     256,
		MaxStepTokens:  2048,
		MaxModelLen:    32768,
		PrefillRate:    16000,
		StepBase:       10 * time.Millisecond,
		StepPerRequest: 60 * time.Microsecond,
		AdapterLoad:    50 * time.Millisecond,
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
	check(c.BlockSize > 0, "engine BlockSize %d: must be positive", c.BlockSize)
	check(c.NumBlocks > 0, "engine NumBlocks %d: must be positive", c.NumBlocks)
	check(c.MaxRunning > 0, "engine MaxRunning %d: must be positive", c.MaxRunning)
	check(c.MaxWaiting >= 0, "engine MaxWaiting %d: must not be negative", c.MaxWaiting)
	check(c.MaxStepTokens >= c.MaxRunning, "engine MaxStepTokens %d: must be at least MaxRunning (%d), or decoding requests starve",
		c.MaxStepTokens, c.MaxRunning)
	check(c.MaxModelLen >= 0, "engine MaxModelLen %d: must not be negative", c.MaxModelLen)
	check(c.MaxModelLen <= c.BlockSize*c.NumBlocks, "engine MaxModelLen %d: more than the KV cache holds (%d blocks of %d tokens)",
		c.MaxModelLen, c.NumBlocks, c.BlockSize)
	check(c.PrefillRate > 0, "engine PrefillRate %v: must be positive", c.PrefillRate)
	check(c.StepBase > 0, "engine StepBase %v: must be positive", c.StepBase)
	check(c.StepPerRequest >= 0, "engine StepPerRequest %v: must not be negative", c.StepPerRequest)
	check(c.StepPerContextToken >= 0, "engine StepPerContextToken %v: must not be negative", c.StepPerContextToken)
	check(c.MaxAdapters >= 0, "engine MaxAdapters %d: must not be negative", c.MaxAdapters)
	check(c.AdapterLoad >= 0, "engine AdapterLoad %v: must not be negative", c.AdapterLoad)
	return errors.Join(faults...)
}

// modelLen is the limit in force.
func (c Config) modelLen() int {
	if c.MaxModelLen == 0 {
		return c.BlockSize * c.NumBlocks
	}
	return c.MaxModelLen
}

// stepTime is how long a step with so many prefill tokens and decoding requests takes, which attend to so many tokens.
func (c Config) stepTime(prefillTokens, decoding, context int) time.Duration {
	prefill := time.Duration(float64(prefillTokens) / c.PrefillRate * float64(time.Second))
	return c.StepBase + time.Duration(decoding)*c.StepPerRequest + time.Duration(context)*c.StepPerContextToken + prefill
}
