package prompt

// Reading is what was found in a body.
type Reading struct {
	// Kind is the API.
	Kind Kind
	// Model is the model as named by the request, verbatim; invalid UTF-8 is
	// replaced. Empty if none is named.
	Model string
	// ModelStart and ModelEnd are where the model's name stands in the body, in
	// bytes, without its quotes. Both 0 if it does not stand there as it is.
	ModelStart, ModelEnd int64
	// Adapter is the LoRA adapter if one is named apart from the model.
	Adapter string
	// SessionKey groups the requests of one conversation or user. At most 128
	// bytes; longer ones are hashed.
	SessionKey string
	// Stream is true if the answer is asked for as a stream.
	Stream bool
	// Media is true if a message has an image, video or audio among its content parts.
	Media bool
	// MaxOutputTokens is the limit of the answer; negative if absent.
	MaxOutputTokens int64
	// PromptTokens is the length of the prompt: token ids counted, text estimated as
	// a quarter of the canonical bytes, rounded up.
	PromptTokens uint32
	// Prompt is the prompt; nil if there is none or it is not understood.
	Prompt *Prompt
	// Opaque says why nothing was read from a body; empty if it was read. Such a
	// request can only be routed by load.
	Opaque string

	body extent
}

// reseed starts the chain from a model that was found outside of the body.
func (r *Reading) reseed(salt string) {
	if r.Prompt != nil {
		r.Prompt.seed = seedOf(r.Model, r.Adapter, salt)
	}
}
