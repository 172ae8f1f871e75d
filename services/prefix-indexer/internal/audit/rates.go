package audit

import "sync"

const (
	// window is the reports after which those before count half.
	window = 256
	// firstReports is how many are waited for before anything is said: an index that
	// has just begun believes less than there is.
	firstReports = 2 * window
	// Reported hits are far above the belief from twice and this share of prompts on,
	// and no longer below half of that.
	farShare = .2
)

// Rates compares the share of prompts that engines found in their caches with the share
// that was believed to be there, all endpoints together. Far above, blocks are of
// another size than the engines', prompts are hashed otherwise, only their beginning is
// looked at, or less is remembered than the engines keep. Safe for concurrent use.
type Rates struct {
	mu                         sync.Mutex
	reports                    int
	prompt, cached, believed   float64 // tokens, older ones count less
	under                      bool
	inAll, inCached, inBelieve int64 // tokens since the start
}

// Totals are the tokens of all reports since the start.
type Totals struct {
	// Prompt counts tokens of prompts, Cached those that engines found in their caches,
	// Believed those that were believed to be there.
	Prompt, Cached, Believed int64
	// Underestimated is true while Cached is far above Believed.
	Underestimated bool
}

// Add counts a report and the share of the prompt, 0..1, that was believed. It returns
// true if this changed whether the belief is far too low, and the two shares.
func (r *Rates) Add(rep Report, share float64) (changed, under bool, cached, believed float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reports++; r.reports%window == 0 {
		r.prompt, r.cached, r.believed = r.prompt/2, r.cached/2, r.believed/2
	}
	p, c := float64(rep.PromptTokens), float64(min(rep.CachedTokens, rep.PromptTokens))
	r.prompt, r.cached, r.believed = r.prompt+p, r.cached+c, r.believed+share*p
	r.inAll, r.inCached, r.inBelieve = r.inAll+int64(p), r.inCached+int64(c), r.inBelieve+int64(share*p)
	cached, believed = r.cached/r.prompt, r.believed/r.prompt
	if r.reports < firstReports {
		return false, false, cached, believed
	}
	under = r.under
	switch over := cached - believed; {
	case over >= farShare && cached >= 2*believed:
		under = true
	case over < farShare/2 || cached < 1.5*believed:
		under = false
	}
	changed, r.under = under != r.under, under
	return changed, under, cached, believed
}

// Totals returns what was counted.
func (r *Rates) Totals() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Totals{Prompt: r.inAll, Cached: r.inCached, Believed: r.inBelieve, Underestimated: r.under}
}
