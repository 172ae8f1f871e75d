package audit

import (
	"slices"
	"sync"
	"time"

	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

const (
	// witnesses is how many contradictions are believed.
	witnesses = 3
	// witnessLife is how long a contradiction counts.
	witnessLife = 5 * time.Minute
	// leastTokens is the shortest believed prefix that is compared. Shorter ones are
	// about as long as the blocks of caches, which are reused whole or not at all.
	leastTokens = 256
	// bytesPerToken is how tokens are estimated, by routers too.
	bytesPerToken = 4
	// doubtLife is how long a placement whose request never got a token is taken for
	// one that may not have been computed.
	doubtLife = 10 * time.Minute
)

// Verdict is what one comparison says.
type Verdict string

// Verdicts.
const (
	// Agrees: at least three quarters of what was believed were there.
	Agrees Verdict = "agrees"
	// Contradicts: less than half was.
	Contradicts Verdict = "contradicts"
	// Unclear: something in between, too little to tell, or not to be counted.
	Unclear Verdict = "unclear"
)

// Claim is what the index believed of one placement, before it was made.
type Claim struct {
	// Key and Endpoint are where it was placed.
	Key      index.Key
	Endpoint string
	// Placed is what the index said.
	Placed index.Placed
	// Unfounded is true if it rested on a placement that was not computed yet: see
	// Judge.Begin.
	Unfounded bool
}

// Share returns the share of the prompt, 0..1, that was believed to be there, and the
// tokens that this comes to.
func (c *Claim) Share(promptTokens uint32) (share float64, tokens int64) {
	tokens = int64(c.Placed.Held) * int64(c.Key.BlockSize) / bytesPerToken
	if promptTokens == 0 {
		return 0, tokens
	}
	return min(float64(tokens)/float64(promptTokens), 1), tokens
}

// Report is what an engine said of one request.
type Report struct {
	// PromptTokens and CachedTokens are as the engine counts, above 0 and at least 0.
	PromptTokens, CachedTokens uint32
	// EstimatedTokens are those of the prompt as the router estimated them.
	EstimatedTokens uint32
}

// Judge finds out which endpoints have lost what. Safe for concurrent use.
type Judge struct {
	mu     sync.Mutex
	places map[place]*evidence
	tells  map[string]bool // endpoints that have reported cached tokens
}

type place struct {
	key      index.Key
	endpoint string
}

// evidence is what is known of one endpoint and key.
type evidence struct {
	gone      []witness
	forgotten index.Mark
	open      map[index.Mark]time.Time // placements that may not be computed yet, by their beginning
}

type witness struct {
	last index.Mark
	at   time.Time
}

// NewJudge returns a judge who knows nothing.
func NewJudge() *Judge {
	return &Judge{places: make(map[place]*evidence), tells: make(map[string]bool)}
}

func (j *Judge) of(p place) *evidence {
	e := j.places[p]
	if e == nil {
		e = &evidence{open: make(map[index.Mark]time.Time)}
		j.places[p] = e
	}
	return e
}

// Begin notes a placement, which is not computed yet, and returns what was believed.
func (j *Judge) Begin(k index.Key, endpoint string, placed index.Placed, now time.Time) Claim {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.of(place{k, endpoint})
	_, unfounded := e.open[placed.Last]
	e.open[placed.Mark] = now
	return Claim{Key: k, Endpoint: endpoint, Placed: placed, Unfounded: unfounded && placed.Held > 0}
}

// Computed notes that the prompt of a placement was computed: its request got a token.
func (j *Judge) Computed(c *Claim) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.places[place{c.Key, c.Endpoint}]; e != nil {
		delete(e.open, c.Placed.Mark)
	}
}

// Compare judges a claim by the engine's report. If upTo is not 0, the endpoint has lost
// what it was sent no later.
func (j *Judge) Compare(c *Claim, r Report, now time.Time) (v Verdict, upTo index.Mark) {
	share, tokens := c.Share(r.EstimatedTokens)
	reported := min(float64(r.CachedTokens)/float64(r.PromptTokens), 1)
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.CachedTokens > 0 {
		j.tells[c.Endpoint] = true
	}
	e := j.places[place{c.Key, c.Endpoint}]
	if tokens < leastTokens || share == 0 || !j.tells[c.Endpoint] || e == nil || c.Placed.Last <= e.forgotten {
		return Unclear, 0
	}
	last := c.Placed.Last
	switch {
	case reported >= share*3/4:
		// What is older than this was said to be gone and may be; newer is not.
		e.gone = slices.DeleteFunc(e.gone, func(w witness) bool { return w.last >= last })
		return Agrees, 0
	case reported >= share/2 || c.Unfounded:
		return Unclear, 0
	}
	e.gone = append(e.gone, witness{last, now})
	return Contradicts, e.convict(now)
}

// convict returns up to where everything is gone by the word of two witnesses of
// three; 0 if there are not so many.
func (e *evidence) convict(now time.Time) index.Mark {
	e.gone = slices.DeleteFunc(e.gone, func(w witness) bool { return now.Sub(w.at) > witnessLife })
	if len(e.gone) < witnesses {
		return 0
	}
	marks := make([]index.Mark, len(e.gone))
	for i, w := range e.gone {
		marks[i] = w.last
	}
	slices.Sort(marks)
	e.forgotten = marks[len(marks)-2]
	e.gone = slices.DeleteFunc(e.gone, func(w witness) bool { return w.last <= e.forgotten })
	return e.forgotten
}

// Tells says whether the endpoint has ever reported cached tokens.
func (j *Judge) Tells(endpoint string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.tells[endpoint]
}

// Keep forgets all endpoints but these.
func (j *Judge) Keep(endpoints []string) {
	stay := make(map[string]bool, len(endpoints))
	for _, id := range endpoints {
		stay[id] = true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for p := range j.places {
		if !stay[p.endpoint] {
			delete(j.places, p)
		}
	}
	for id := range j.tells {
		if !stay[id] {
			delete(j.tells, id)
		}
	}
}

// Sweep forgets doubts of placements that have lasted too long.
func (j *Judge) Sweep(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.places {
		for m, at := range e.open {
			if now.Sub(at) > doubtLife {
				delete(e.open, m)
			}
		}
	}
}
