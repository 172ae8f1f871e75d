package simple

import (
	"time"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// Request is one inference request and who might serve it. What a type did not ask
// for in its [Needs] is not there. It holds until Score returns; copy what is to be
// kept, and never log PromptText.
type Request struct {
	// ID links scores to outcomes.
	ID string
	// Model and Adapter are as the client sent them, after rewriting; empty if there
	// is none.
	Model, Adapter string
	// SessionKey groups the requests of one conversation; empty if unknown.
	SessionKey string
	// PromptTokens is the length of the prompt, counted or estimated; -1 if unknown.
	PromptTokens int
	// MaxOutputTokens is the client's bound of the answer; -1 if it set none.
	MaxOutputTokens int
	// Priority is higher for more important requests, 0 by default.
	Priority int
	// PromptText is the prompt, if it was asked for and the operator allows it.
	PromptText string
	// Prefix is the prompt as a chain of block hashes; nil if there is none.
	Prefix *scorerv1.PrefixBlocks
	// Candidates are to be rated, in this order. There is at least one.
	Candidates []Candidate
	// Explain says that somebody will read Scores.Texts.
	Explain bool

	headers []*scorerv1.Header
}

// Header returns the request header of that lower-case name; empty if it is not there
// or was not asked for.
func (r Request) Header(name string) string {
	for _, h := range r.headers {
		if h.GetName() == name {
			return h.GetValue()
		}
	}
	return ""
}

// Candidate is one endpoint that may serve the request.
type Candidate struct{ message *scorerv1.Candidate }

// ID is the endpoint's identity for as long as it lives. It is not an address.
func (c Candidate) ID() string { return c.message.GetEndpointId() }

// Label returns one of the endpoint's labels.
func (c Candidate) Label(name string) (value string, ok bool) {
	for _, l := range c.message.GetLabels() {
		if l.GetName() == name {
			return l.GetValue(), true
		}
	}
	return "", false
}

// Load is the endpoint's load as last observed; not ok if it never was.
func (c Candidate) Load() (l Load, ok bool) {
	m := c.message.GetLoad()
	if m == nil {
		return Load{Waiting: -1, Running: -1, KVCacheUsage: -1}, false
	}
	l = Load{
		Waiting: known(m.WaitingRequestCount), Running: known(m.RunningRequestCount), KVCacheUsage: -1,
		CreditedRequests: int(m.GetCreditedRequestCount()), CreditedTokens: int(m.GetCreditedTokenCount()),
	}
	if m.GetObserveTime() != nil {
		l.ObservedAt = m.GetObserveTime().AsTime()
	}
	if m.KvCacheUsageRatio != nil {
		l.KVCacheUsage = float64(*m.KvCacheUsageRatio)
	}
	return l, true
}

// Adapters are the LoRA adapters that run on the endpoint, those that only waiting
// requests need, and how many fit at once; not ok if it does not tell.
func (c Candidate) Adapters() (running, waiting []string, most int, ok bool) {
	a := c.message.GetAdapters()
	return a.GetRunning(), a.GetWaiting(), int(a.GetMaxCount()), a != nil
}

// Load is how busy an endpoint is. A figure of -1 is unknown, which is neither idle
// nor full.
type Load struct {
	// ObservedAt is when the figures were read; zero if they never were.
	ObservedAt time.Time
	// Waiting and Running count requests.
	Waiting, Running int
	// KVCacheUsage is the share of the KV-cache blocks in use, 0 to 1.
	KVCacheUsage float64
	// CreditedRequests are those picked for the endpoint since the figures were read,
	// and CreditedTokens their prompt tokens that it had not cached.
	CreditedRequests, CreditedTokens int
}

func known(v *uint32) int {
	if v == nil {
		return -1
	}
	return int(*v)
}

// NewRequest reads a message whose candidates are listed. Servers do it for every call;
// otherwise it is for tests of a Scorer.
func NewRequest(m *scorerv1.ScoreRequest) Request {
	in := m.GetRequest()
	if in == nil {
		in = &scorerv1.InferenceRequest{}
	}
	list := m.GetListed().GetCandidates()
	r := Request{
		ID: in.GetRequestId(), Model: in.GetModel(), Adapter: in.GetAdapter(), SessionKey: in.GetSessionKey(),
		PromptTokens: known(in.PromptTokenCount), MaxOutputTokens: known(in.MaxOutputTokenCount), Priority: int(in.GetPriority()),
		PromptText: in.GetPromptText(), Prefix: in.GetPrefix(), Explain: m.GetExplain(), headers: in.GetHeaders(),
		Candidates: make([]Candidate, len(list)),
	}
	for i, c := range list {
		r.Candidates[i].message = c
	}
	return r
}
