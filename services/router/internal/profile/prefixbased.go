package profile

import "github.com/pointsman/pointsman/services/router/internal/route"

// PrefixBasedType is the type name of PrefixBased.
const PrefixBasedType = "prefix-based-pd-decider"

// PrefixBased has prompts prefilled elsewhere of which the endpoint that decodes would
// have to compute many tokens: for fewer, moving the KV cache costs more than it saves.
type PrefixBased struct {
	name                        string
	nonCachedTokens, promptSize int64
}

// NewPrefixBased returns the decider for prompts of at least promptTokens of which at
// least nonCachedTokens are not cached. nonCachedTokens 0: never. Both are at least 0.
func NewPrefixBased(name string, nonCachedTokens, promptTokens int) *PrefixBased {
	return &PrefixBased{name, int64(nonCachedTokens), int64(promptTokens)}
}

// Name returns the plug-in's name in the configuration.
func (d *PrefixBased) Name() string { return d.name }

// Decide implements Decider. Without a word of a prefix scorer it declines.
func (d *PrefixBased) Decide(c *route.Cycle, decode *route.ProfileResult) Verdict {
	if d.nonCachedTokens == 0 {
		return no("nonCachedTokens is 0")
	}
	if _, picked := decode.Best(); !picked {
		return no("there is no endpoint to decode")
	}
	v := Verdict{Reason: route.ReasonDeclined, PromptTokens: int64(c.Request.PromptTokens), CachedTokens: -1}
	if v.PromptTokens < max(d.promptSize, d.nonCachedTokens) {
		v.Words = "the prompt is short"
		return v
	}
	held, known := heldBytes(c, decode)
	if !known {
		v.Reason, v.Words = route.ReasonMatchUnknown, "no prefix scorer told what the endpoint holds of it"
		return v
	}
	v.CachedTokens = min(held/bytesPerToken, v.PromptTokens)
	if v.PromptTokens-v.CachedTokens < d.nonCachedTokens {
		v.Words = "most of the prompt is cached where it is decoded"
		return v
	}
	v.Yes, v.Reason = true, ""
	return v
}
