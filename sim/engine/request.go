package engine

import "time"

// Token is a token id.
type Token = uint32

// ID names a request within one engine. IDs are given in order of submission, from 1, and never reused.
type ID uint64

// Request is what a client asks of an engine. The answer is decided in advance: a model of an engine needs to know how
// long it takes and which blocks it fills, not what to say.
type Request struct {
	// Adapter is the LoRA adapter; empty means the base model. Adapters never share cached blocks.
	Adapter string
	// Salt keeps the cached blocks of one tenant from another's (vLLM's cache_salt).
	Salt string
	// Prompt holds the prompt's tokens, at least one. It must not change until the request has ended.
	Prompt []Token
	// Output holds the tokens that the model would answer with. Empty means that nothing is generated: the request ends
	// with its prefill, as embeddings do. It must not change until the request has ended.
	Output []Token
	// MaxTokens caps the answer; 0 means no cap but the model's length. An answer that the cap cuts or just meets ends
	// with Length.
	MaxTokens int
	// Remote is how many of the prompt's tokens, from the first on, can be had from another engine or a store, at most all
	// of them. Those that the prefix cache lacks are fetched: the request's blocks are taken, Fetching is told, and it
	// waits for Arrive or Miss.
	Remote int
	// Hold keeps the blocks of a request that ends with Length until Release, because another engine will fetch them.
	Hold bool
	// MinCached ends the request with CacheThreshold, before anything is computed, if a smaller share of its prompt, 0 to
	// 1, is found in the prefix cache and in what is Remote (vLLM's cache_hit_threshold).
	MinCached float64
}

// generates is the number of tokens that r will answer with.
func (r *Request) generates() int {
	if r.MaxTokens > 0 {
		return min(r.MaxTokens, len(r.Output))
	}
	return len(r.Output)
}

// ending is how r ends when all goes well.
func (r *Request) ending() Reason {
	if r.MaxTokens > 0 && len(r.Output) >= r.MaxTokens {
		return Length
	}
	return Stop
}

// Reason says why a request ended.
type Reason uint8

// The reasons.
const (
	// Stop: the answer was complete.
	Stop Reason = iota
	// Length: the answer met MaxTokens.
	Length
	// Aborted: by Abort.
	Aborted
	// TooLong: prompt and answer together exceed the model's length. Rejected.
	TooLong
	// QueueFull: MaxWaiting requests were waiting. Rejected.
	QueueFull
	// NoAdapters: an adapter was named, and the engine has no slots. Rejected.
	NoAdapters
	// EmptyPrompt: there was no prompt. Rejected.
	EmptyPrompt
	// CacheThreshold: too little of the prompt was cached for MinCached.
	CacheThreshold
	// Failed: the prompt did not arrive from elsewhere, by Miss.
	Failed
)

// NumReasons is the number of reasons, for arrays with one entry per reason.
const NumReasons = int(Failed) + 1

// String returns vLLM's word for r where it has one.
func (r Reason) String() string {
	switch r {
	case Stop:
		return "stop"
	case Length:
		return "length"
	case Aborted:
		return "abort"
	case TooLong:
		return "too_long"
	case QueueFull:
		return "queue_full"
	case NoAdapters:
		return "no_adapters"
	case EmptyPrompt:
		return "empty_prompt"
	case CacheThreshold:
		return "cache_threshold"
	case Failed:
		return "error"
	}
	return "unknown"
}

// Kind says what an Event tells.
type Kind uint8

// The kinds.
const (
	// Admitted: the request left the waiting queue for the first time. Tokens = prompt tokens found in the prefix cache, and
	// those that arrived from elsewhere. The prompt's last token is never among them: it is always computed.
	Admitted Kind = iota
	// Prefill: a part of the prompt was computed, and more is left. Tokens = tokens computed so far, cached ones included.
	Prefill
	// FirstToken: the first token of the answer. Tokens = 1. Since = time to first token.
	FirstToken
	// NextToken: a further token. Tokens = tokens so far. Since = time since the one before.
	NextToken
	// Preempted: the request lost its blocks and waits again. Tokens = tokens of the answer so far.
	Preempted
	// Finished: the request has ended; Reason says why. Tokens = tokens of the answer. Since = time since its submission.
	Finished
	// Rejected: the request was not taken; Reason says why.
	Rejected
	// Fetching: the request has its blocks and waits for a part of its prompt from elsewhere. Tokens = tokens to fetch.
	Fetching
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	names := [...]string{"admitted", "prefill", "first token", "token", "preempted", "finished", "rejected", "fetching"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Event is something that happened to a request.
type Event struct {
	// At is when, since the engine's birth.
	At time.Duration
	// ID is the request.
	ID ID
	// Kind says what happened, and what Tokens and Since mean.
	Kind Kind
	// Reason is set for Finished and Rejected.
	Reason Reason
	// Tokens is a count; see Kind.
	Tokens int
	// Since is a duration; see Kind.
	Since time.Duration
	// Timing is set for Finished.
	Timing *Timing
}

// Timing says when a request that has ended reached its stations, since the engine's birth. A station that was never
// reached is -1.
type Timing struct {
	Submitted, Admitted, FirstToken, Ended time.Duration
	// Prompt and Cached are the prompt's tokens, and those of them that were not computed: see Admitted.
	Prompt, Cached int
	// Preemptions counts how often the request lost its blocks.
	Preemptions int
}
