package edge

// Reason is why an exchange ended as it did. It is the label of metrics and the value of
// the header x-pointsman-reason.
type Reason uint8

// Reasons.
const (
	// OK: the answer was seen to its end.
	OK Reason = iota
	// Cancelled: the client left before the answer had begun.
	Cancelled
	// Unseen: it was decided, and nothing of an answer was seen.
	Unseen
	// CutShort: the end of the answer was not seen.
	CutShort
	// BadAnswer: the answer's status counts as a failure.
	BadAnswer
	// BadBody: the request's body could not be read to its end.
	BadBody
	// BadJSON to BadEncoding are those of package prompt.
	BadJSON
	TooDeep
	DuplicateKey
	BadModel
	BadEncoding
	// ModelMissing: the request names no model and its API demands one.
	ModelMissing
	// NotRewritable: another model was to be put into a body where it cannot be.
	NotRewritable
	// TooLarge: the body is above a limit.
	TooLarge
	// BodyTimeout: the client fell silent within its body.
	BodyTimeout
	// BuffersFull and TooMany: the router holds as much, or as many, as it may.
	BuffersFull
	TooMany
	// NotFound and ModelNotFound: no such path is served, no such model.
	NotFound
	ModelNotFound
	// Upgrade: the connection was to be upgraded.
	Upgrade
	// NoEndpoint, Shed and ScorerFailed are why routing names nobody.
	NoEndpoint
	Shed
	ScorerFailed
	// Late: the decision took too long.
	Late
	// BadMessage: the proxy sent what cannot be read.
	BadMessage
	// ConnectFailed to IdleTimeout are how an endpoint failed.
	ConnectFailed
	Reset
	FirstByteTimeout
	IdleTimeout
	// PrefillFailed: the endpoint that was to prefill did not, and nobody else was to.
	PrefillFailed
	// EncodeFailed: those who were to encode did not, and nobody else was to.
	EncodeFailed
	// Internal is a fault of the router.
	Internal

	// Reasons is how many there are.
	Reasons
)

var reasonNames = [Reasons]string{
	OK: "ok", Cancelled: "cancelled", Unseen: "unseen", CutShort: "cut-short", BadAnswer: "bad-answer", BadBody: "bad-body",
	BadJSON: "bad-json", TooDeep: "too-deep", DuplicateKey: "duplicate-key", BadModel: "bad-model", BadEncoding: "bad-encoding",
	ModelMissing: "model-missing", NotRewritable: "not-rewritable", TooLarge: "too-large", BodyTimeout: "body-timeout",
	BuffersFull: "buffers-full", TooMany: "too-many", NotFound: "not-found", ModelNotFound: "model-not-found", Upgrade: "upgrade",
	NoEndpoint: "no-endpoint", Shed: "shed", ScorerFailed: "scorer-failed", Late: "late", BadMessage: "bad-message",
	ConnectFailed: "connect-failed", Reset: "reset", FirstByteTimeout: "first-byte-timeout", IdleTimeout: "idle-timeout",
	PrefillFailed: "prefill-failed", EncodeFailed: "encode-failed", Internal: "internal",
}

// String returns the reason in lower case, its words joined by hyphens.
func (r Reason) String() string { return reasonNames[r] }

// Code returns the reason as OpenAI spells codes, its words joined by underscores.
func (r Reason) Code() string {
	out := []byte(r.String())
	for i, c := range out {
		if c == '-' {
			out[i] = '_'
		}
	}
	return string(out)
}
