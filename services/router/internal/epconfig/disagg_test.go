package epconfig

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/profile"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// twoProfiles are a decode and a prefill profile.
const twoProfiles = `
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: queue-scorer, weight: 1}]}
- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: queue-scorer, weight: 1}]}
`

// staged is a configuration of plug-ins for stages and two profiles. The first plug-in is
// in line 7.
func staged(plugins string) string {
	return head + "plugins:\n- type: queue-scorer\n- type: decode-filter\n- type: prefill-filter\n" + plugins + twoProfiles
}

// disagg is the handler's parameters.
func disagg(l *Loaded) profile.DisaggConfig {
	h, _ := l.Config.Handler.(*profile.Disagg)
	return h.Config()
}

func TestDisaggregationRows(t *testing.T) {
	const pd = "- type: prefix-based-pd-decider\n  parameters: {nonCachedTokens: 16}\n"
	const handler = "- type: disagg-profile-handler\n"
	with := func(parameters string) string {
		return handler + "  parameters: " + parameters + "\n- type: always-disagg-pd-decider\n- type: always-disagg-multimodal-decider\n"
	}
	unused := func(names ...string) []string {
		var all []string
		for _, n := range names {
			all = append(all, "no profile refers to \""+n+"\"")
		}
		return all
	}
	const prefillOff = `profile "prefill" never runs, since no decider is named for it in deciders`
	names := func(decode, prefill string, first bool) func(*testing.T, *Loaded) {
		return func(t *testing.T, l *Loaded) {
			t.Helper()
			if c := disagg(l); c.Decode != decode || c.Prefill != prefill || c.PrefillFirst != first {
				t.Errorf("handler %+v", c)
			}
		}
	}
	for _, c := range []struct {
		id, text string
		want     want
	}{
		{"A5 promptTokens −1", staged("- type: prefix-based-pd-decider\n  parameters: {nonCachedTokens: 5, promptTokens: -1}\n" + handler), want{errs: []string{"epp.yaml:8:50: plugins[3].parameters.promptTokens: must be at least 0, not -1"}}},
		{"A13 nonCachedTokens −1", staged("- type: prefix-based-pd-decider\n  parameters:\n    nonCachedTokens: -1\n" + handler), want{errs: []string{"epp.yaml:9:22: plugins[3].parameters.nonCachedTokens: must be at least 0, not -1"}}},
		{"A17 parameters are a text", staged("- type: prefix-based-pd-decider\n  parameters: many\n" + handler), want{errs: []string{"epp.yaml:8:15: plugins[3].parameters: must be a mapping of fields"}}},
		{"A17 a number as a text", staged("- type: prefix-based-pd-decider\n  parameters: {nonCachedTokens: many}\n" + handler), want{errs: []string{`must be a whole number, not the text "many"`}}},
		{"A1 0 is never, and was always", staged("- type: prefix-based-pd-decider\n  parameters: {nonCachedTokens: 0}\n" + handler + "  parameters: {deciders: {prefill: prefix-based-pd-decider}}\n"), want{warnings: []string{
			"epp.yaml:8:33: plugins[3].parameters.nonCachedTokens: 0 means that no prompt is prefilled elsewhere; before v0.7 of the llm-d scheduler it meant that every one is: for that, take always-disagg-pd-decider",
		}}},
		{"newer producer", staged("- type: prefix-based-pd-decider\n  parameters: {nonCachedTokens: 1, prefixMatchInfoProducerName: p}\n" + handler + "  parameters: {deciders: {prefill: prefix-based-pd-decider}}\n"), want{infos: []string{"prefixMatchInfoProducerName: is not needed here"}}},
		{"C11 no parameters", staged(handler), want{warnings: []string{prefillOff}, check: names("decode", "prefill", false)}},
		{"C13 unknown decider", staged(with("{deciders: {prefill: always-disag-pd-decider}}")), want{errs: []string{
			`epp.yaml:8:36: plugins[3].parameters.deciders.prefill: there is no plug-in "always-disag-pd-decider"; did you mean "always-disagg-pd-decider"?`,
		}}},
		{"C13 no decider", staged(with("{deciders: {prefill: queue-scorer}}")), want{errs: []string{`deciders.prefill: plug-in "queue-scorer" is a scorer and cannot decide about stages`}}},
		{"C13 a decider of another stage", staged(with("{deciders: {prefill: always-disagg-multimodal-decider}}")), want{errs: []string{"always-disagg-multimodal-decider decides about stage encode, not prefill"}}},
		{"C13 a decider for a stage without a profile", staged(with("{deciders: {encode: always-disagg-multimodal-decider}}")), want{errs: []string{`deciders.encode: there is no profile "encode" for "always-disagg-multimodal-decider" to decide about`}}},
		{"C14 newer and older", staged(with("{profiles: {decode: decode}, deciderPluginName: always-disagg-pd-decider}")), want{errs: []string{
			"epp.yaml:8:63: plugins[3].parameters.deciderPluginName: is the older form of deciders.prefill, and cannot stand beside profiles and deciders",
		}}},
		{"older alone", staged(with("{decodeProfile: decode, prefillProfile: prefill, deciderPluginName: always-disagg-pd-decider}")), want{warnings: unused("always-disagg-multimodal-decider"), check: names("decode", "prefill", false)}},
		{"older: the longer name wins", staged(with("{deciderPluginName: nobody, prefillDeciderPluginName: always-disagg-pd-decider}")), want{warnings: unused("always-disagg-multimodal-decider"), check: func(t *testing.T, l *Loaded) {
			if d := disagg(l).PrefillDecider; d == nil || d.Name() != "always-disagg-pd-decider" {
				t.Errorf("decider %v", d)
			}
		}}},
		{"C16 prefill-first", staged(handler + "  parameters: {stageOrder: prefill-first}\n"), want{check: names("decode", "prefill", true)}},
		{"C16 PrefillFirst", staged(handler + "  parameters: {stageOrder: PrefillFirst}\n"), want{check: names("decode", "prefill", true)}},
		{"C16 prefill", staged(handler + "  parameters: {stageOrder: prefill}\n"), want{check: names("decode", "prefill", true)}},
		{"C16 decode-first", staged(handler + "  parameters: {stageOrder: decode-first}\n"), want{warnings: []string{prefillOff}, check: names("decode", "prefill", false)}},
		{"C16 DecodeFirst", staged(handler + "  parameters: {stageOrder: DECODE_FIRST}\n"), want{warnings: []string{prefillOff}, check: names("decode", "prefill", false)}},
		{"C17 stageOrder other", staged(handler + "  parameters: {stageOrder: encode-first}\n"), want{errs: []string{`epp.yaml:8:28: plugins[3].parameters.stageOrder: must be decode-first or prefill-first, not "encode-first"`}}},
		{"C19 prefill-first and a decider for encode", staged(with("{stageOrder: prefill-first, deciders: {encode: always-disagg-multimodal-decider}}")) + "- {name: encode, plugins: [{pluginRef: queue-scorer, weight: 1}]}\n", want{warnings: unused("always-disagg-pd-decider")}},
		{"prefill-first and a decider for prefill", staged(with("{stageOrder: prefill-first, deciders: {prefill: always-disagg-pd-decider}}")), want{errs: []string{"deciders.prefill: has nothing to decide with stageOrder prefill-first"}}},
		{"unknown parameter", staged(handler + "  parameters: {primaryPort: 8000}\n"), want{errs: []string{"plugins[3].parameters.primaryPort: unknown parameter of disagg-profile-handler"}}},
		{"SGLang, and LocalPrefill", staged(with("{connector: sglang, onPrefillFailure: [RetryOther, LocalPrefill], deciders: {prefill: always-disagg-pd-decider}}")), want{warnings: append(unused("always-disagg-multimodal-decider"), "connector: servers that SGLang runs for decoding alone cannot prefill")}},
		{"SGLang, by default", staged(with("{connector: sglang, deciders: {prefill: always-disagg-pd-decider}}")), want{warnings: unused("always-disagg-multimodal-decider"), check: func(t *testing.T, l *Loaded) {
			if !strings.Contains(strings.Join(strings.Fields(string(l.Effective)), " "), "onPrefillFailure: - RetryOther - Fail ") {
				t.Errorf("the policy is not shown:\n%s", l.Effective)
			}
		}}},
		{"SGLang, and a decider that may decline", staged("- type: prefix-based-pd-decider\n  parameters: {nonCachedTokens: 5}\n" + handler + "  parameters: {connector: sglang, onPrefillFailure: [RetryOther, Fail], deciders: {prefill: prefix-based-pd-decider}}\n"), want{warnings: []string{"take always-disagg-pd-decider and onPrefillFailure: [RetryOther, Fail]"}}},
		{"SGLang, and no decider needed", staged(handler + "  parameters: {connector: sglang, onPrefillFailure: [RetryOther, Fail], stageOrder: prefill-first}\n"), want{}},
		{"SGLang, and Fail", staged(with("{connector: sglang, onPrefillFailure: [RetryOther, Fail], deciders: {prefill: always-disagg-pd-decider}}")), want{warnings: unused("always-disagg-multimodal-decider")}},
		{"unknown stage", staged(handler + "  parameters: {profiles: {decoder: decode}}\n"), want{errs: []string{`plugins[3].parameters.profiles.decoder: unknown field; did you mean "decode"?`}}},
		{"unknown profile", staged(handler + "  parameters: {profiles: {decode: decoed}}\n"), want{errs: []string{`epp.yaml:8:35: plugins[3].parameters.profiles.decode: there is no profile "decoed"; did you mean "decode"?`}}},
		{"one profile for two stages", staged(handler + "  parameters: {profiles: {prefill: decode}}\n"), want{errs: []string{`plugins[3].parameters.profiles.prefill: profile "decode" is that of decode already`}}},
		{"an empty name", staged(handler + "  parameters: {profiles: {prefill: ''}}\n"), want{errs: []string{`plugins[3].parameters.profiles.prefill: is empty; it must be a name`}}},
		{"an empty name, older", staged(handler + "  parameters: {decodeProfile: ''}\n"), want{errs: []string{`plugins[3].parameters.decodeProfile: is empty; it must be a name`}}},
		{"a number as a name", staged(handler + "  parameters: {profiles: {decode: 7}}\n"), want{errs: []string{`plugins[3].parameters.profiles.decode: must be a text, not the number 7; put it in quotes`}}},
		{"a list of profiles", staged(handler + "  parameters: {profiles: [decode]}\n"), want{errs: []string{`plugins[3].parameters.profiles: must be a mapping of fields`}}},
		{"a profile that is none's", staged(with("{deciders: {prefill: always-disagg-pd-decider}}")) + "- {name: other, plugins: [{pluginRef: queue-scorer, weight: 1}]}\n", want{warnings: append(unused("always-disagg-multimodal-decider"), `profile "other" never runs: it is none of profiles`)}},
		{"B158 a fall-back", staged(with("{profiles: {fallback: other}, deciders: {prefill: always-disagg-pd-decider}}")) + "- {name: other, plugins: [{pluginRef: queue-scorer, weight: 1}]}\n", want{warnings: unused("always-disagg-multimodal-decider"), check: func(t *testing.T, l *Loaded) {
			if c := disagg(l); c.Fallback != "other" {
				t.Errorf("handler %+v", c)
			}
		}}},
		{"a decider in a profile", staged(pd+handler+"  parameters: {deciders: {prefill: prefix-based-pd-decider}}\n") + "- {name: encode, plugins: [{pluginRef: queue-scorer, weight: 1}, {pluginRef: prefix-based-pd-decider}]}\n", want{warnings: []string{`"prefix-based-pd-decider" has no effect in a profile`, `profile "encode" never runs`}}},
		{"a faulty decider is one fault", staged(with("{deciders: {prefill: p}}") + "- {name: p, type: prefix-based-pd-decider, parameters: {nonCachedTokens: x}}\n"), want{errs: []string{"plugins[6].parameters.nonCachedTokens"}}},
		{"headers handlers of older schedulers", staged("- type: prefill-header-handler\n- type: disagg-headers-handler\n  parameters: {prefillProfile: prefill}\n" + handler), want{
			warnings: []string{"have no effect here", prefillOff}, infos: []string{"prefill-header-handler is not needed here: the fronts set the headers"},
		}},

		{"C20 primaryPort 0", staged("- type: pd-profile-handler\n  parameters: {primaryPort: 0}\n"), want{infos: []string{"threshold is 0: every prompt is prefilled elsewhere"}, check: names("decode", "prefill", false)}},
		{"C20 primaryPort 1", staged("- type: pd-profile-handler\n  parameters: {primaryPort: 1}\n"), want{check: func(t *testing.T, l *Loaded) {
			if c := disagg(l); c.PrimaryPort != 1 {
				t.Errorf("handler %+v", c)
			}
		}}},
		{"C20 primaryPort 65535", staged("- type: pd-profile-handler\n  parameters: {primaryPort: 65535}\n"), want{}},
		{"C20 primaryPort −10", staged("- type: pd-profile-handler\n  parameters: {primaryPort: -10}\n"), want{errs: []string{"epp.yaml:8:29: plugins[3].parameters.primaryPort: must be between 0 and 65535, not -10"}}},
		{"C20 primaryPort 65536", staged("- type: pd-profile-handler\n  parameters: {primaryPort: 65536}\n"), want{errs: []string{"must be between 0 and 65535, not 65536"}}},
		{"C20 primaryPort a float", staged("- type: pd-profile-handler\n  parameters: {primaryPort: 80.5}\n"), want{errs: []string{"plugins[3].parameters.primaryPort: must be a whole number"}}},
		{"C20 malformed", staged("- type: pd-profile-handler\n  parameters: [1]\n"), want{errs: []string{"plugins[3].parameters: must be a mapping of fields"}}},
		{"C20 unknown decider", staged("- type: pd-profile-handler\n  parameters: {deciderPluginName: nobody}\n"), want{errs: []string{`plugins[3].parameters.deciderPluginName: there is no plug-in "nobody"`}}},
		{"pd: an empty decider", staged("- type: pd-profile-handler\n  parameters: {deciderPluginName: ''}\n"), want{errs: []string{`plugins[3].parameters.deciderPluginName: is empty; it must be a name`}}},
		{"pd: an empty profile", staged("- type: pd-profile-handler\n  parameters: {decodeProfile: ''}\n"), want{errs: []string{`profiles.decode is empty`}}},
		{"pd: the decider by its type's name", staged("- type: pd-profile-handler\n" + pd), want{infos: []string{`the decider is "prefix-based-pd-decider"`}}},
		{"pd: threshold −1", staged("- type: pd-profile-handler\n  parameters: {threshold: -1}\n"), want{errs: []string{"plugins[3].parameters.threshold: must be at least 0, not -1"}}},
		{"pd: hashBlockSize 0", staged("- type: pd-profile-handler\n  parameters: {hashBlockSize: 0}\n"), want{errs: []string{"plugins[3].parameters.hashBlockSize: must be above 0, not 0"}}},
		{"pd: as of v0.4", staged("- type: prefill-header-handler\n- type: pd-profile-handler\n  parameters: {threshold: 10, hashBlockSize: 5, decodeProfile: decode, prefillProfile: prefill, prefixPluginName: prefix-cache-scorer}\n"), want{
			infos: []string{"hashBlockSize: is not needed here", "prefixPluginName: is not needed here"}, check: shaped("decode: decode-filter | queue-scorer×1 prefix-cache-scorer×0 | max-score-picker(1)", "prefill: prefill-filter | queue-scorer×1 | max-score-picker(1)"),
		}},
		{"pd: threshold and a decider", staged("- type: pd-profile-handler\n  parameters: {threshold: 1, deciderPluginName: prefix-based-pd-decider}\n" + pd), want{errs: []string{"threshold: cannot stand beside deciderPluginName"}}},
		{"pd: a profile is missing", staged("- type: pd-profile-handler\n  parameters: {prefillProfile: other}\n"), want{errs: []string{`plugins[3].parameters.prefillProfile: there is no profile "other"`}}},

		{"data parallel", head + "plugins:\n- type: queue-scorer\n- type: data-parallel-profile-handler\n", want{infos: []string{"names no picker"}}},
		{"data parallel, port 0", head + "plugins:\n- type: queue-scorer\n- type: data-parallel-profile-handler\n  parameters: {primaryPort: 0}\n", want{errs: []string{"must be between 1 and 65535, not 0"}}},
		{"data parallel, two profiles", staged("- type: data-parallel-profile-handler\n"), want{errs: []string{"data-parallel-profile-handler is for a single profile, and there are 2"}}},
	} {
		t.Run(c.id, func(t *testing.T) { c.want.run(t, c.text) })
	}
}

func TestFailurePolicies(t *testing.T) {
	const retry, local, fail = route.RetryOther, route.Local, route.Fail
	for _, c := range []struct {
		name, parameters string
		errs             []string
		prefill          []route.Action
		encode           []route.Action
	}{
		{"by default", "{}", nil, []route.Action{retry, local}, []route.Action{retry, fail}},
		{"by default, SGLang", "{connector: sglang}", nil, []route.Action{retry, fail}, []route.Action{retry, fail}},
		{"SGLang, and LocalPrefill", "{connector: sglang, onPrefillFailure: LocalPrefill}", nil, []route.Action{local}, []route.Action{retry, fail}},
		{"a word", "{onPrefillFailure: Fail, onEncodeFailure: LocalEncode}", nil, []route.Action{fail}, []route.Action{local}},
		{"a list", "{onPrefillFailure: [RetryOther, Fail], onEncodeFailure: [RetryOther, LocalEncode]}", nil, []route.Action{retry, fail}, []route.Action{retry, local}},
		{"it ends with Fail", "{onPrefillFailure: RetryOther, onEncodeFailure: []}", nil, []route.Action{retry, fail}, []route.Action{fail}},
		{"misspelt", "{onPrefillFailure: [Retryother]}", []string{`plugins[3].parameters.onPrefillFailure: unknown action "Retryother"; did you mean "RetryOther"?`}, nil, nil},
		{"of the other stage", "{onPrefillFailure: LocalEncode}", []string{`unknown action "LocalEncode"`}, nil, nil},
		{"after the end", "{onPrefillFailure: [Fail, LocalPrefill]}", []string{"LocalPrefill comes after Fail, and so never"}, nil, nil},
		{"twice", "{onPrefillFailure: [RetryOther, RetryOther]}", []string{"RetryOther is there twice"}, nil, nil},
		{"an empty text", "{onPrefillFailure: ''}", []string{"onPrefillFailure: is empty; it must be a name"}, nil, nil},
		{"a number", "{onPrefillFailure: 3}", []string{"onPrefillFailure: must be a text"}, nil, nil},
		{"no attempts", "{prefillAttempts: 0}", []string{"prefillAttempts: must be at least 1, not 0"}, nil, nil},
		{"no time", "{prefillTimeout: 0s}", []string{"prefillTimeout: must be above 0"}, nil, nil},
		{"no unit", "{encodeBudget: 5}", []string{"encodeBudget: must be a length of time"}, nil, nil},
		{"unknown connector", "{connector: nixl}", []string{`connector: unknown connector "nixl"; did you mean "nixlv2"?`}, nil, nil},
		{"no port", "{bootstrapPort: 0}", []string{"bootstrapPort: must be between 1 and 65535, not 0"}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := staged("- type: disagg-profile-handler\n  parameters: " + c.parameters + "\n")
			l, _, err := load(text)
			if c.errs != nil {
				want{errs: c.errs}.run(t, text)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			p := disagg(l).Policy
			if d := cmp.Diff([][]route.Action{c.prefill, c.encode}, [][]route.Action{p.Prefill.OnFailure, p.Encode.OnFailure}); d != "" {
				t.Error(d)
			}
			again := mustLoad(t, string(l.Effective))
			if d := cmp.Diff(disagg(l), disagg(again)); d != "" || string(l.Effective) != string(again.Effective) {
				t.Errorf("read again: %s\n%s", d, again.Effective)
			}
		})
	}
	l := mustLoad(t, staged("- type: pd-profile-handler\n  parameters: {prefillAttempts: 3, prefillTimeout: 5s, prefillBudget: 7s, connector: sglang, bootstrapPort: 7}\n"))
	want := route.StagePolicy{OnFailure: []route.Action{retry, fail}, Attempts: 3, Timeout: 5 * time.Second, Budget: 7 * time.Second}
	if c := disagg(l); cmp.Diff(want, c.Policy.Prefill) != "" || c.Connector != route.ConnectorSGLang || c.Policy.BootstrapPort != 7 {
		t.Errorf("handler %+v", c)
	}
	l = mustLoad(t, staged("- type: pd-profile-handler\n  parameters: {prefillTimeout: 9s, prefillBudget: 7s}\n"))
	contains(t, "warnings", notices(l.Warnings), []string{"prefillTimeout: 9s is longer than prefillBudget, 7s, which is what counts"})
}

// learning resolves scorers as scorers does, and has prefix-cache-scorer look at blocks.
type learning struct{ scorers }

type learns struct{ asked }

func (learns) PrefixNeeds(*roster.Table) (int, int) { return 64, 256 }

func (s *learning) Resolve(name, typ string, parameters []byte) (string, any, bool, []string, error) {
	service, ask, failClosed, warnings, err := s.scorers.Resolve(name, typ, parameters)
	if a, ok := ask.(asked); ok && typ == PrefixScorerType {
		ask = learns{a}
	}
	return service, ask, failClosed, warnings, err
}

// The endpoint that prefills holds the prompt as well, whatever scorers its profile has.
func TestPicksOfEveryProfileAreLearned(t *testing.T) {
	text := staged("- type: prefix-cache-scorer\n- type: prefix-based-pd-decider\n  parameters: {nonCachedTokens: 1}\n- type: disagg-profile-handler\n  parameters: {deciders: {prefill: prefix-based-pd-decider}}\n")
	l, err := Load("epp.yaml", []byte(text), Deps{Scorers: &learning{}})
	if err != nil {
		t.Fatal(err)
	}
	shaped("decode: decode-filter | queue-scorer×1 prefix-cache-scorer×0 | max-score-picker(1)", "prefill: prefill-filter | queue-scorer×1 | max-score-picker(1)")(t, l)
	contains(t, "infos", notices(l.Infos), []string{`prefix-based-pd-decider of "disagg-profile-handler" goes by prefix-cache-scorer, which profile "decode" lacks; it is asked with weight 0`})
	decode, prefill := l.Config.Profiles[0], l.Config.Profiles[1]
	if len(decode.Learners) != 0 || len(prefill.Learners) != 1 || prefill.Learners[0].Plugin != "prefix-cache-scorer" {
		t.Errorf("learners of decode %v, of prefill %v", decode.Learners, prefill.Learners)
	}
}
