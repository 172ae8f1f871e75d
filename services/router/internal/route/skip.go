package route

// Reason is why a stage that the configuration has was not, or not to the end, carried
// out elsewhere. It is the label of metrics. How each leg ended of a stage that was tried is
// another question, with answers of its own: package disagg has them, and here they are all
// ReasonStageFailed.
type Reason string

// Reasons.
const (
	// ReasonDeclined: the decider found that it is not worth it.
	ReasonDeclined Reason = "decider-declined"
	// ReasonMatchUnknown: the decider goes by what the endpoint holds of the prompt, and
	// no prefix scorer has told.
	ReasonMatchUnknown Reason = "match-unknown"
	// ReasonNoDecider: the stage has a profile and no decider, which switches it off.
	ReasonNoDecider Reason = "no-decider"
	// ReasonNoEndpoint: nobody can do the stage's work.
	ReasonNoEndpoint Reason = "no-endpoint"
	// ReasonProfileFailed: the stage's profile came to nothing for another reason, such as
	// a scorer that must answer and did not.
	ReasonProfileFailed Reason = "profile-failed"
	// ReasonSameEndpoint: the profiles have picked one endpoint for both.
	ReasonSameEndpoint Reason = "same-endpoint"
	// ReasonCapability: the endpoints that were picked, or the request's API, cannot be
	// served so.
	ReasonCapability Reason = "capability-missing"
	// ReasonFallback: nobody could decode, and the fall-back profile's pick does all.
	ReasonFallback Reason = "fallback-profile"
	// ReasonCached: the endpoint that decodes was asked first, and had enough of the prompt
	// in its cache. Never in a Plan.
	ReasonCached Reason = "cached"
	// ReasonStageFailed: it was tried and failed. In a Plan only of a request that is
	// decided again; else whoever carries the stage out counts it.
	ReasonStageFailed Reason = "stage-failed"
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{
		ReasonDeclined, ReasonMatchUnknown, ReasonNoDecider, ReasonNoEndpoint, ReasonProfileFailed,
		ReasonSameEndpoint, ReasonCapability, ReasonFallback, ReasonCached, ReasonStageFailed,
	}
}

// Skip is a stage that is not carried out elsewhere.
type Skip struct {
	// Stage is its name.
	Stage string
	// Reason is why.
	Reason Reason
	// Words say more, for people; empty if there is no more to say.
	Words string
	// PromptTokens and CachedTokens are what a decider went by; negative if it was by
	// something else.
	PromptTokens, CachedTokens int64
}
