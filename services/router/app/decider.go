package app

import (
	"github.com/pointsman/pointsman/services/router/internal/profile"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// PrefixDecider is the rule of prefix-based-pd-decider, for those who want to know without
// a router what it would decide: whether a prompt of so many tokens, of which so many
// blocks of 64 bytes are cached at the endpoint that decodes, is prefilled elsewhere.
func PrefixDecider(nonCachedTokens, promptTokens int) func(tokens, cachedBlocks int) bool {
	d := profile.NewPrefixBased(profile.PrefixBasedType, nonCachedTokens, promptTokens)
	return func(tokens, cachedBlocks int) bool {
		c := &route.Cycle{Request: &route.Request{PromptTokens: uint32(tokens)}}
		decode := &route.ProfileResult{
			Profile: &route.Profile{}, Candidates: []int32{0}, Ranked: []int32{0},
			Scores: []route.Scores{{Verdict: route.Scored, BlockSize: 64, Matched: []uint32{uint32(cachedBlocks)}}},
		}
		return d.Decide(c, decode).Yes
	}
}
