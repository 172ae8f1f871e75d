package profile

import "github.com/pointsman/pointsman/services/router/internal/route"

// Threshold is the rule that pd-profile-handler had before there were deciders.
type Threshold struct{ bytes int64 }

// NewThreshold returns the rule for prompts of which at least so many bytes are not
// cached; 0: all prompts.
func NewThreshold(bytes int) Threshold { return Threshold{int64(bytes)} }

// Name returns the parameter's name: the rule is no plug-in.
func (Threshold) Name() string { return "threshold" }

// Decide implements Decider. What nobody has told of is not cached.
func (d Threshold) Decide(c *route.Cycle, decode *route.ProfileResult) Verdict {
	if d.bytes == 0 {
		return yes()
	}
	size := int64(c.Request.PromptTokens) * bytesPerToken
	if p, ok := c.Request.Prompt.(interface{ Bytes() int64 }); ok {
		size = p.Bytes()
	}
	held, _ := heldBytes(c, decode)
	v := Verdict{Yes: true, PromptTokens: size / bytesPerToken, CachedTokens: min(held, size) / bytesPerToken}
	if size-min(held, size) < d.bytes {
		v.Yes, v.Reason, v.Words = false, route.ReasonDeclined, "fewer bytes than threshold are not cached where it is decoded"
	}
	return v
}
