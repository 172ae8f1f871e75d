package route

import (
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// Request is what routing knows about one inference request. It is filled in by a
// front and not changed afterwards.
type Request struct {
	// ID is the client's request id or one of ours; at most 128 bytes. It need not
	// be unique: clients repeat theirs.
	ID string
	// Path is the HTTP path, such as "/v1/chat/completions".
	Path string
	// Model is the model named by the request, verbatim, as endpoints will see it.
	// Empty if it names none.
	Model string
	// ClientModel is the model that the client named, if Model has taken its place.
	// Empty: it has not.
	ClientModel string
	// Adapter is the LoRA adapter, if the request names one apart from the model.
	Adapter string
	// SessionKey groups the requests of one conversation. Empty if unknown.
	SessionKey string
	// PromptTokens is the estimated length of the prompt, in tokens. 0 if the body
	// was not understood.
	PromptTokens uint32
	// Streams is true if the answer is asked for as a stream.
	Streams bool
	// Media is true if an image, video or audio is among the messages.
	Media bool
	// MaxOutputTokens is the client's limit of the answer; negative if absent.
	MaxOutputTokens int64
	// Priority is the request's class; higher is more important, 0 the default.
	Priority int32
	// Prompt is the understood prompt; nil if there is none. Requests without one
	// are routed by load alone.
	Prompt Prompt
	// Headers gives the request's headers. Never nil.
	Headers Headers
	// Subset restricts the candidates; nil for no restriction.
	Subset *Subset
	// Deadline is when the caller wants the decision at the latest: scorers that have
	// not answered by then are decided without. Zero: their own time is all that counts.
	Deadline time.Time
	// Retry is what became of the attempts before this decision; nil for the first.
	Retry *Retry
}

// Retry is what is known of a request that endpoints have failed already.
type Retry struct {
	// Failed are those endpoints. For this request they are as good as in quarantine: tried
	// again only where nobody else is left.
	Failed []roster.ID
	// Handed is how many of the attempts failed at an endpoint that was to fetch the prompt
	// from another one, so that it may be the transfer that fails.
	Handed int
}

// AskedModel is the model that the client named.
func (r *Request) AskedModel() string {
	if r.ClientModel != "" {
		return r.ClientModel
	}
	return r.Model
}

// Prompt is the canonical prompt of a request. It is used by one goroutine at a time.
type Prompt interface {
	// Blocks returns the prefix chain in blocks of size bytes, at most limit of
	// them, under Scheme. The slice is shared: callers must not change it.
	Blocks(size, limit int) []uint64
	// Text returns the canonical prompt. It holds user data and must not be logged.
	Text() string
}

// Scheme names the hash scheme of Prompt.Blocks: chained XXH64 over byte blocks,
// seeded with model, adapter and cache salt.
const Scheme = "xxh64-chain/1"

// Headers gives read access to request headers.
type Headers interface {
	// Get returns the first value of the header, "" if absent. name is lower-case.
	Get(name string) string
}

// NoHeaders is a Headers without any.
type NoHeaders struct{}

// Get returns "".
func (NoHeaders) Get(string) string { return "" }

// Subset is the set of addresses that a proxy allows for a request.
type Subset struct {
	// Addresses holds "ip" or "ip:port" (IPv6: bare, or "[ip]:port"). An entry
	// without a port matches every port. Empty: nobody is allowed.
	Addresses []string
}
