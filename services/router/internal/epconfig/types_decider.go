package epconfig

import (
	"github.com/pointsman/pointsman/services/router/internal/profile"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// producerName is a parameter of newer deciders that names where match lengths come from.
const producerName = "prefixMatchInfoProducerName"

// stageOf is the stage that deciders of the type decide about; "" if it is none's.
func stageOf(typ string) string {
	switch typ {
	case profile.PrefixBasedType, profile.AlwaysType:
		return route.StagePrefill
	case profile.AlwaysMediaType:
		return route.StageEncode
	}
	return ""
}

func deciderTypes() []*Type {
	return []*Type{
		{
			Name: profile.PrefixBasedType, Role: RoleDecider,
			Summary: "Has a prompt prefilled elsewhere if the endpoint that decodes would have to compute at least nonCachedTokens of it: it goes by how much the prefix " +
				"scorer of the decode profile believes that endpoint to hold, unweighted, and declines if that did not tell. A decode profile without a prefix scorer gets one with weight 0.",
			Parameters: []Parameter{
				{
					Name: "nonCachedTokens", Default: 0, Schema: `{"minimum": 0}`,
					Summary: "Fewest tokens that are not cached. 0: never; before v0.7 of the llm-d scheduler 0 meant always, which is " + profile.AlwaysType + " now.",
				},
				{Name: "promptTokens", Default: 0, Summary: "Fewest tokens of the whole prompt.", Schema: `{"minimum": 0}`},
				{Name: producerName, Summary: "Accepted, of no effect: the prefix scorer of the decode profile tells.", Schema: `{"type": "string"}`},
			},
			New: newPrefixBased,
		},
		{
			Name: profile.AlwaysType, Role: RoleDecider,
			Summary: "Has every prompt prefilled elsewhere.",
			New:     func(name string, _ *Params) (any, error) { return profile.NewAlways(name), nil },
		},
		{
			Name: profile.AlwaysMediaType, Role: RoleDecider,
			Summary: "Has the media of every request encoded elsewhere that has a content part image_url, video_url, audio_url, input_audio or input_image.",
			New:     func(name string, _ *Params) (any, error) { return profile.NewAlwaysMedia(name), nil },
		},
	}
}

func newPrefixBased(name string, p *Params) (any, error) {
	size := map[string]int{}
	for _, key := range []string{"nonCachedTokens", "promptTokens"} {
		if size[key] = p.Int(key); size[key] < 0 {
			p.Fault(p.At(key), key, "must be at least 0, not %d", size[key])
		}
	}
	if at := p.At(producerName); at != nil {
		p.report.info(at, join(p.path, producerName), "is not needed here: the prefix scorer of the decode profile tells")
	}
	if p.String(producerName); p.Failed() {
		return nil, nil
	}
	if size["nonCachedTokens"] == 0 {
		p.Warn("nonCachedTokens", "0 means that no prompt is prefilled elsewhere; before v0.7 of the llm-d scheduler it meant that every one is: for that, take %s", profile.AlwaysType)
	}
	return profile.NewPrefixBased(name, size["nonCachedTokens"], size["promptTokens"]), nil
}
