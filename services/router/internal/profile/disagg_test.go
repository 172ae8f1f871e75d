package profile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

// picks is a result whose pick is the endpoint at the position, with what a prefix scorer
// says it holds, in tokens.
func picks(name string, pos int32, held uint32) *route.ProfileResult {
	return &route.ProfileResult{
		Profile: &route.Profile{Name: name}, Candidates: []int32{pos}, Ranked: []int32{0},
		Scores: []route.Scores{{Verdict: route.Scored, Values: []float32{0}, Matched: []uint32{held}, BlockSize: 4, Blocks: 1 << 10}},
	}
}

// none is a result without a pick.
func none(name string, err error) *route.ProfileResult {
	return &route.ProfileResult{Profile: &route.Profile{Name: name}, Err: err}
}

func handler(t *testing.T, cfg DisaggConfig) *Disagg {
	t.Helper()
	cfg.Decode = "decode"
	h, err := NewDisagg("h", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// all are the profiles of a configuration, in no helpful order.
func all() []*route.Profile {
	return []*route.Profile{{Name: "fallback"}, {Name: "encode"}, {Name: "prefill"}, {Name: "decode"}}
}

// next is the profiles that run next, in words.
func next(h route.Handler, c *route.Cycle, done ...*route.ProfileResult) string {
	var names []string
	for _, p := range h.Next(c, all(), done) {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

func TestNextRows(t *testing.T) {
	pd := DisaggConfig{Prefill: "prefill", PrefillDecider: NewPrefixBased("d", 2, 0)}
	epd := DisaggConfig{Prefill: "prefill", Encode: "encode", PrefillDecider: NewPrefixBased("d", 2, 0), EncodeDecider: NewAlwaysMedia("m")}
	first := DisaggConfig{Prefill: "prefill", Encode: "encode", EncodeDecider: NewAlwaysMedia("m"), PrefillFirst: true}
	fallback := pd
	fallback.Fallback = "fallback"
	decode, held := picks("decode", 0, 0), picks("decode", 0, 5)
	prefill, encode := picks("prefill", 1, 0), picks("encode", 2, 0)
	lost := errors.New("nobody")
	type done = []*route.ProfileResult
	for _, c := range []struct {
		id    string
		cfg   DisaggConfig
		media bool
		done  done
		want  string
	}{
		{"B1 nothing ran", pd, false, nil, "decode"},
		{"B2 decode came to nothing", pd, false, done{none("decode", lost)}, ""},
		{"B3 both ran", pd, false, done{decode, prefill}, ""},
		{"B4 decode ran, nothing cached", pd, false, done{decode}, "prefill"},
		{"B5 decode ran, cached", pd, false, done{held}, ""},
		{"B6 cached 0", pd, false, done{picks("decode", 0, 0)}, "prefill"},
		{"B6 fully cached", pd, false, done{picks("decode", 0, 6)}, ""},
		{"B8 text only", DisaggConfig{Encode: "encode", EncodeDecider: NewAlwaysMedia("m")}, false, done{decode}, ""},
		{"B9 media", DisaggConfig{Encode: "encode", EncodeDecider: NewAlwaysMedia("m")}, true, done{decode}, "encode"},
		{"B11 media, only decode ran", epd, true, done{decode}, "encode"},
		{"B12 text, much is not cached", epd, false, done{decode}, "prefill"},
		{"B14 encode failed", epd, true, done{decode, none("encode", lost)}, "prefill"},
		{"B15 encode done", epd, true, done{decode, encode}, "prefill"},
		{"B15 all done", epd, true, done{decode, encode, prefill}, ""},
		{"B17 no deciders", DisaggConfig{Prefill: "prefill", Encode: "encode"}, true, done{decode}, ""},
		{"B18 no decider for prefill", DisaggConfig{Prefill: "prefill", Encode: "encode", EncodeDecider: NewAlwaysMedia("m")}, true, done{decode}, "encode"},
		{"B18 afterwards", DisaggConfig{Prefill: "prefill", Encode: "encode", EncodeDecider: NewAlwaysMedia("m")}, true, done{decode, encode}, ""},
		{"B20 prefill first", first, false, nil, "prefill"},
		{"B20 prefill first, media", first, true, nil, "prefill"},
		{"B21 text", first, false, done{prefill}, "decode"},
		{"B21 prefill failed", first, false, done{none("prefill", lost)}, "decode"},
		{"B23 media", first, true, done{prefill}, "encode"},
		{"B24", first, true, done{prefill, encode}, "decode"},
		{"B24 all done", first, true, done{prefill, encode, decode}, ""},
		{"B158 nobody decodes, fall-back", fallback, false, done{none("decode", lost)}, "fallback"},
		{"B158 nor does the fall-back", fallback, false, done{none("decode", lost), none("fallback", lost)}, ""},
		{"B158 not needed", fallback, false, done{held}, ""},
	} {
		t.Run(c.id, func(t *testing.T) {
			cycle := &route.Cycle{Request: &route.Request{PromptTokens: 6, Media: c.media, Path: "/v1/chat/completions"}}
			if got := next(handler(t, c.cfg), cycle, c.done...); got != c.want {
				t.Errorf("next %q, want %q", got, c.want)
			}
		})
	}
}

// Only requests that generate have stages, whatever the deciders say.
func TestPathsWithStages(t *testing.T) {
	h := handler(t, DisaggConfig{Prefill: "prefill", PrefillDecider: NewAlways("a")})
	for path, want := range map[string]string{
		"": "prefill", "/v1/chat/completions": "prefill", "/openai/v1/completions/": "prefill", "/v1/responses": "prefill", "/v1/messages": "prefill", "/inference/v1/generate": "prefill",
		"/v1/embeddings": "", "/v1/models": "", "/tokenize": "", "/v1/audio/transcriptions": "", "/v1/messages/count_tokens": "", "/generate": "",
	} {
		c := &route.Cycle{Request: &route.Request{Path: path}}
		if got := next(h, c, picks("decode", 0, 0)); got != want {
			t.Errorf("%s: next %q, want %q", path, got, want)
		}
	}
}

// words are a plan, or its error, in words.
func words(p *route.Plan, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	out := p.Type()
	for _, s := range p.Stages {
		out += "; " + s.Name
		for _, e := range s.Endpoints {
			out += " " + e.Address
		}
	}
	for _, s := range p.Skipped {
		out += fmt.Sprintf("; no %s: %s", s.Stage, s.Reason)
	}
	return out
}

func TestPlans(t *testing.T) {
	policies := func(prefill, encode route.Action) route.Policy {
		return route.Policy{Prefill: route.StagePolicy{OnFailure: []route.Action{route.RetryOther, prefill}}, Encode: route.StagePolicy{OnFailure: []route.Action{encode}}}
	}
	epd := DisaggConfig{
		Prefill: "prefill", Encode: "encode", Fallback: "fallback", PrefillDecider: NewPrefixBased("d", 2, 0), EncodeDecider: NewAlwaysMedia("m"), Policy: policies(route.Local, route.Local),
	}
	strict := epd
	strict.Policy = policies(route.Fail, route.Fail)
	first := epd
	first.PrefillFirst, first.PrefillDecider = true, nil
	off := DisaggConfig{Prefill: "prefill", Encode: "encode", Policy: policies(route.Fail, route.Fail)}
	nobody := fmt.Errorf("%w: none", route.ErrNoEndpoint)
	full := fmt.Errorf("%w: full", route.ErrShed)
	decode, prefill, encode := picks("decode", 0, 0), picks("prefill", 1, 0), picks("encode", 2, 0)
	several := picks("prefill", 1, 0)
	several.Candidates, several.Ranked = []int32{0, 1, 2, 3}, []int32{1, 0, 3, 2}
	other := picks("prefill", 3, 0)
	type done = []*route.ProfileResult
	for _, c := range []struct {
		id   string
		cfg  DisaggConfig
		path string
		done done
		want string
	}{
		{"C23 both", epd, "", done{decode, encode, prefill}, "encode-prefill-decode; encode 192.168.1.3:8000; prefill 192.168.1.2:8000"},
		{"C23 IPv6", epd, "", done{decode, encode, picks("prefill", 4, 0)}, "encode-prefill-decode; encode 192.168.1.3:8000; prefill [fd00::5]:8200"},
		{"fall-backs, the decoder not among them, nor another engine", epd, "", done{decode, encode, several}, "encode-prefill-decode; encode 192.168.1.3:8000; prefill 192.168.1.2:8000 192.168.1.3:8000"},
		{"B157 no prefill endpoint", epd, "", done{decode, encode, none("prefill", nobody)}, "encode-decode; encode 192.168.1.3:8000; no prefill: no-endpoint"},
		{"B157 no prefill endpoint, Fail", strict, "", done{decode, encode, none("prefill", nobody)}, "error: stage prefill is to be done elsewhere or not at all: no endpoint can serve the request: none"},
		{"prefill is full", epd, "", done{decode, encode, none("prefill", full)}, "encode-decode; encode 192.168.1.3:8000; no prefill: profile-failed"},
		{"prefill is full, Fail", strict, "", done{decode, encode, none("prefill", full)}, "error: stage prefill is to be done elsewhere or not at all: no room for the request: full"},
		// The reference keeps the empty result; here a stage has endpoints, or a reason.
		{"C10 encode came to nobody", epd, "", done{decode, none("encode", nobody), prefill}, "prefill-decode; prefill 192.168.1.2:8000; no encode: no-endpoint"},
		{"encode failed, Fail", strict, "", done{decode, none("encode", nobody), prefill}, "error: stage encode is to be done elsewhere or not at all: no endpoint can serve the request: none"},
		{"the client has gone", epd, "", done{decode, encode, none("prefill", fmt.Errorf("score: %w", context.Canceled))}, "error: score: context canceled"},
		{"the decider declined, and Fail is for failures", strict, "", done{picks("decode", 0, 6), encode}, "encode-decode; encode 192.168.1.3:8000; no prefill: decider-declined"},
		{"nobody told", strict, "", done{{Profile: &route.Profile{Name: "decode"}, Candidates: []int32{0}, Ranked: []int32{0}}, encode}, "encode-decode; encode 192.168.1.3:8000; no prefill: match-unknown"},
		{"one endpoint for both", strict, "", done{decode, encode, picks("prefill", 0, 0)}, "encode-decode; encode 192.168.1.3:8000; no prefill: same-endpoint"},
		{"another engine", epd, "", done{decode, encode, other}, "encode-decode; encode 192.168.1.3:8000; no prefill: capability-missing"},
		{"another engine, Fail", strict, "", done{decode, encode, other}, "error: stage prefill is to be done elsewhere or not at all: no endpoint can serve the request: its endpoints run another engine than the one that decodes"},
		{"another API, and Fail is for failures", strict, "/v1/embeddings", done{decode}, "decode-only; no encode: capability-missing; no prefill: capability-missing"},
		{"no deciders", off, "", done{decode}, "decode-only; no encode: no-decider; no prefill: no-decider"},
		{"B158 fall-back", strict, "", done{none("decode", nobody), picks("fallback", 1, 0)}, "decode-only; no encode: fallback-profile; no prefill: fallback-profile"},
		{"prefill first", first, "", done{prefill, encode, decode}, "encode-prefill-decode; encode 192.168.1.3:8000; prefill 192.168.1.2:8000"},
		{"prefill first, failed", first, "", done{none("prefill", nobody), encode, decode}, "encode-decode; encode 192.168.1.3:8000; no prefill: no-endpoint"},
	} {
		t.Run(c.id, func(t *testing.T) {
			cycle := routetest.Cycle(t, &route.Request{PromptTokens: 6, Media: true, Path: c.path},
				routetest.Pod{Engine: "vllm"}, routetest.Pod{Engine: "vllm"}, routetest.Pod{}, routetest.Pod{Engine: "sglang"}, routetest.Pod{Host: "fd00::5", Port: 8200})
			h := handler(t, c.cfg)
			primary, err := h.Primary(cycle, c.done)
			if err != nil {
				t.Fatal(err)
			}
			if got := words(h.Plan(cycle, c.done, primary)); got != c.want {
				t.Errorf("plan %s\nwant %s", got, c.want)
			}
		})
	}
}

// A request whose prompt did not arrive is decided anew. In the end one that decodes does all
// by itself, for that reason and no other: what the endpoint is believed to hold came from
// the attempt that failed.
func TestWhatDoesNotArriveIsPrefilledHere(t *testing.T) {
	local := route.Policy{Prefill: route.StagePolicy{OnFailure: []route.Action{route.RetryOther, route.Local}}}
	cfg := DisaggConfig{Prefill: "prefill", PrefillDecider: NewPrefixBased("d", 2, 0), Policy: local}
	strict := cfg
	strict.Policy.Prefill.OnFailure = []route.Action{route.RetryOther, route.Fail}
	first := DisaggConfig{Prefill: "prefill", PrefillFirst: true, Policy: local}
	decode, held, prefill := picks("decode", 0, 0), picks("decode", 0, 6), picks("prefill", 1, 0)
	const elsewhere, here = "prefill-decode; prefill 192.168.1.2:8000", "decode-only; no prefill: stage-failed"
	type done = []*route.ProfileResult
	for _, c := range []struct {
		name  string
		cfg   DisaggConfig
		retry *route.Retry
		done  done
		next  string
		work  route.Work
		plan  string // with what runs next
	}{
		{"the first attempt", cfg, nil, done{decode}, "prefill", route.WorkDecode, elsewhere},
		{"failed otherwise", cfg, &route.Retry{Failed: []roster.ID{"pod-0000"}}, done{decode}, "prefill", route.WorkDecode, elsewhere},
		{"once, and another decodes", cfg, &route.Retry{Failed: []roster.ID{"pod-0003"}, Handed: 1}, done{decode}, "prefill", route.WorkDecode, elsewhere},
		{"once, and the same one decodes", cfg, &route.Retry{Failed: []roster.ID{"pod-0000"}, Handed: 1}, done{decode}, "", route.WorkAll, here},
		{"and is believed to hold it", cfg, &route.Retry{Failed: []roster.ID{"pod-0000"}, Handed: 1}, done{held}, "", route.WorkAll, here},
		{"twice", cfg, &route.Retry{Failed: []roster.ID{"pod-0003", "pod-0002"}, Handed: 2}, done{decode}, "", route.WorkAll, here},
		{"twice, and it must not", strict, &route.Retry{Handed: 2}, done{decode}, "prefill", route.WorkDecode, elsewhere},
		{"prefill first, once", first, &route.Retry{Failed: []roster.ID{"pod-0003"}, Handed: 1}, done{prefill, decode}, "", route.WorkDecode, elsewhere},
		{"prefill first, the same one decodes", first, &route.Retry{Failed: []roster.ID{"pod-0000"}, Handed: 1}, done{prefill, decode}, "", route.WorkAll, here},
		{"prefill first, twice", first, &route.Retry{Handed: 2}, done{decode}, "", route.WorkAll, here},
	} {
		t.Run(c.name, func(t *testing.T) {
			cycle := routetest.Cycle(t, &route.Request{PromptTokens: 6, Retry: c.retry}, routetest.Pod{}, routetest.Pod{}, routetest.Pod{}, routetest.Pod{})
			h := handler(t, c.cfg)
			if got := next(h, cycle, c.done...); got != c.next {
				t.Errorf("next %q, want %q", got, c.next)
			}
			primary := c.done[len(c.done)-1]
			if got := h.Work(cycle, c.done[:len(c.done)-1], primary); got != c.work {
				t.Errorf("work %d, want %d", got, c.work)
			}
			if c.next != "" {
				c.done = append(c.done, prefill)
			}
			if got := words(h.Plan(cycle, c.done, primary)); got != c.plan {
				t.Errorf("plan %s\nwant %s", got, c.plan)
			}
		})
	}
	cycle := routetest.Cycle(t, &route.Request{Retry: &route.Retry{Handed: 2}}, routetest.Pod{}, routetest.Pod{})
	if got := next(handler(t, first), cycle); got != "decode" {
		t.Errorf("prefill first, twice: next %q", got)
	}
}

func TestPrimaries(t *testing.T) {
	lost := errors.New("nobody")
	decode, fallback := picks("decode", 0, 0), picks("fallback", 1, 0)
	noDecode, noFallback := none("decode", lost), none("fallback", lost)
	type done = []*route.ProfileResult
	for name, c := range map[string]struct {
		done done
		want *route.ProfileResult
	}{
		"C8 decode came to nothing":  {done{noDecode}, noDecode},
		"decode":                     {done{picks("prefill", 1, 0), decode}, decode},
		"B158 fall-back":             {done{noDecode, fallback}, fallback},
		"B158 neither: decode's own": {done{noDecode, noFallback}, noDecode},
		"nothing ran":                {nil, nil},
	} {
		got, err := handler(t, DisaggConfig{Prefill: "prefill", Fallback: "fallback"}).Primary(nil, c.done)
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// Tokens count where the prompt is prefilled.
func TestWork(t *testing.T) {
	cfg := DisaggConfig{Prefill: "prefill", Encode: "encode", Fallback: "fallback", PrefillDecider: NewPrefixBased("d", 2, 0)}
	first := DisaggConfig{Prefill: "prefill", PrefillFirst: true}
	type done = []*route.ProfileResult
	for name, c := range map[string]struct {
		cfg  DisaggConfig
		done done
		res  *route.ProfileResult
		want route.Work
	}{
		"much is not cached":         {cfg, nil, picks("decode", 0, 0), route.WorkDecode},
		"cached":                     {cfg, nil, picks("decode", 0, 6), route.WorkAll},
		"prefill":                    {cfg, nil, picks("prefill", 0, 0), route.WorkPrefill},
		"encode":                     {cfg, nil, picks("encode", 0, 0), route.WorkEncode},
		"fall-back":                  {cfg, nil, picks("fallback", 0, 0), route.WorkAll},
		"no stages":                  {DisaggConfig{}, nil, picks("decode", 0, 0), route.WorkAll},
		"no decider":                 {DisaggConfig{Prefill: "prefill"}, nil, picks("decode", 0, 0), route.WorkAll},
		"prefill first":              {first, done{picks("prefill", 1, 0)}, picks("decode", 0, 0), route.WorkDecode},
		"prefill first, and failed":  {first, done{none("prefill", errors.New("x"))}, picks("decode", 0, 0), route.WorkAll},
		"prefill first, cached here": {first, done{picks("prefill", 1, 0)}, picks("decode", 0, 6), route.WorkDecode},
	} {
		c2 := &route.Cycle{Request: &route.Request{PromptTokens: 6}}
		if got := handler(t, c.cfg).Work(c2, c.done, c.res); got != c.want {
			t.Errorf("%s: work %d, want %d", name, got, c.want)
		}
	}
}

func TestConnectors(t *testing.T) {
	c := routetest.Cycle(t, &route.Request{}, routetest.Pod{Engine: "vllm"}, routetest.Pod{Engine: "sglang"}, routetest.Pod{})
	var got []route.Connector
	for pos := range int32(3) {
		for _, set := range []route.Connector{"", route.ConnectorSharedStorage} {
			res := picks("decode", pos, 0)
			p, err := handler(t, DisaggConfig{Connector: set, PrimaryPort: 8000}).Plan(c, []*route.ProfileResult{res}, res)
			if err != nil || p.PrimaryPort != 8000 || len(p.Skipped) > 0 {
				t.Fatalf("%+v, %v", p, err)
			}
			got = append(got, p.Connector)
		}
	}
	if d := cmp.Diff([]route.Connector{"nixlv2", "shared-storage", "sglang", "shared-storage", "nixlv2", "shared-storage"}, got); d != "" {
		t.Error(d)
	}
}

func TestDataParallel(t *testing.T) {
	h := NewDataParallel("dp", 8000)
	if err := h.CheckProfiles([]string{"a", "b"}); err == nil {
		t.Error("two profiles are accepted")
	}
	if err := h.CheckProfiles([]string{"a"}); err != nil {
		t.Error(err)
	}
	res := picks("default", 0, 0)
	p, err := h.Plan(nil, nil, res)
	if err != nil || p.PrimaryPort != 8000 || p.Connector != route.ConnectorSidecar || p.Policy == nil || len(p.Stages)+len(p.Skipped) != 0 || h.Work(nil, nil, res) != route.WorkAll {
		t.Errorf("plan %+v, %v", p, err)
	}
}

func TestADecodeProfileMustBeNamed(t *testing.T) {
	if _, err := NewDisagg("h", DisaggConfig{}); err == nil {
		t.Error("accepted without")
	}
}
