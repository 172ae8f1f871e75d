package length

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

const label = "llm-d.ai/context-length-range"

func id(i int) roster.ID { return roster.ID(fmt.Sprintf("e%04d", i)) }

// pool returns a type over endpoints with these ranges; "none" has no label.
func pool(t testing.TB, ranges ...string) (*Type, *roster.Roster, *int) {
	r := roster.New(roster.Config{Clock: func() int64 { return int64(time.Hour) }})
	endpoints := make([]roster.Endpoint, len(ranges))
	for i, text := range ranges {
		endpoints[i] = roster.Endpoint{ID: id(i), Host: "10.0.0.1", Port: uint16(1 + i)}
		if text != "none" {
			endpoints[i].Labels = []roster.Label{{Name: label, Value: text}}
		}
	}
	table, err := roster.NewTable(endpoints)
	if err != nil {
		t.Fatal(err)
	}
	r.SetTable(table)
	abstained := new(int)
	return New(Config{Roster: r, Abstained: func(_ string, _ scorerv1.AbstainReason, n int) { *abstained += n }}), r, abstained
}

func ask(r *roster.Roster, tokens int, positions ...uint32) *scorerv1.ScoreRequest {
	req := &scorerv1.ScoreRequest{
		Request:    &scorerv1.InferenceRequest{RequestId: "r"},
		Candidates: &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: r.Snapshot().Table.Digest, Positions: positions}},
	}
	if tokens >= 0 {
		req.Request.PromptTokenCount = proto.Uint32(uint32(tokens))
	}
	return req
}

func score(t testing.TB, typ *Type, req *scorerv1.ScoreRequest) *scorerv1.ScoreResponse {
	t.Helper()
	in, _, faults := typ.Parse(req.GetParametersJson())
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	out := &scorerv1.ScoreResponse{}
	if err := typ.Score(t.Context(), in, req, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestScores(t *testing.T) {
	for name, c := range map[string]struct {
		ranges []string
		tokens int
		want   []float32
	}{
		"F21 above all":                   {[]string{"0-2048", "0-8192"}, 9000, []float32{.3 / (1 + 6.952), .3 / (1 + .808)}},
		"F21 below all":                   {[]string{"500-1000", "100-1000"}, 50, []float32{.3 / 1.45, .3 / 1.05}},
		"F22":                             {[]string{"0-15000", "15001-20000"}, 14999, []float32{.3 + .7*(.7/2.5+.3*1/15000), .3 / 1.002}},
		"a narrow range beats a wide one": {[]string{"0-1000", "0-100000"}, 500, []float32{.3 + .7*(.7/1.1+.15), .3 + .7*(.7/11+.3*.995)}},
		"E38 and no label":                {[]string{"0-100", "", "0-100-200", "100-50", "abc-100", "none"}, 0, []float32{.3 + .7*(.7/1.01+.3), 0, 0, 0, 0, .5}},
		"a range of one length":           {[]string{"7-7"}, 7, []float32{1}},
	} {
		t.Run(name, func(t *testing.T) {
			typ, r, _ := pool(t, c.ranges...)
			got := score(t, typ, ask(r, c.tokens)).GetScores()
			if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// F21 and F22 as they are put: who wins.
func TestF21F22Order(t *testing.T) {
	for _, c := range []struct {
		name, better, worse string
		tokens              int
		low, high           float32 // bounds of the worse
	}{
		{"F21 larger max", "0-8192", "0-2048", 9000, 0, .3},
		{"F21 smaller min", "100-1000", "500-1000", 50, 0, .3},
		{"F22", "0-15000", "15001-20000", 14999, 0, .3},
	} {
		typ, r, _ := pool(t, c.better, c.worse)
		if s := score(t, typ, ask(r, c.tokens)).GetScores(); s[0] <= s[1] || s[1] <= c.low || s[1] >= c.high {
			t.Errorf("%s: %v", c.name, s)
		}
	}
}

func TestAbstaining(t *testing.T) {
	typ, r, abstained := pool(t, "0-100", "none")
	if got := score(t, typ, ask(r, -1)); !got.GetAbstainedOnAll() || got.GetAbstainReason() != scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE || *abstained != 2 {
		t.Errorf("a length that is not known: %v, %d reported", got, *abstained)
	}
	req := ask(r, 50)
	req.Explain = true
	req.Candidates = &scorerv1.ScoreRequest_Listed{Listed: &scorerv1.CandidateList{Candidates: []*scorerv1.Candidate{
		{EndpointId: "stranger"}, {EndpointId: "told", Labels: []*scorerv1.Label{{Name: label, Value: "0-10"}}}, {EndpointId: "e0001"}, {EndpointId: "other", Labels: []*scorerv1.Label{{Name: "x"}}}, {EndpointId: "e0000"},
	}}}
	got := score(t, typ, req)
	var texts []string
	for _, x := range got.GetExplanations() {
		texts = append(texts, x.GetText())
	}
	if diff := cmp.Diff([]string{"endpoint not in the pool", "50 tokens outside of 0–10", "no label", "no label", "50 tokens in 0–100"}, texts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint32{0}, got.GetAbstainedIndices()); diff != "" || len(got.GetScores()) != 5 {
		t.Error(diff, got)
	}
	req.GetListed().Candidates = req.GetListed().Candidates[:1]
	if got := score(t, typ, req); !got.GetAbstainedOnAll() {
		t.Errorf("strangers alone: %v", got)
	}
}

func TestFaults(t *testing.T) {
	typ, r, _ := pool(t, "0-100")
	for _, text := range []string{`{"label":""}`, `{"label":1}`, `{"enableFiltering":"x"}`, `{"labels":"x"}`} {
		if _, _, faults := typ.Parse([]byte(text)); len(faults) != 1 {
			t.Errorf("%s: %v", text, faults)
		}
	}
	in, _, _ := typ.Parse(nil)
	for _, req := range []*scorerv1.ScoreRequest{ask(r, 1, 0, 1), {Request: &scorerv1.InferenceRequest{}, Candidates: &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: 1}}}} {
		if err := typ.Score(t.Context(), in, req, &scorerv1.ScoreResponse{}); err == nil {
			t.Errorf("%v: no error", req)
		}
	}
}

// A label that changes while the members stay is read anew.
func TestALabelThatChanges(t *testing.T) {
	typ, r, _ := pool(t, "0-100")
	in, _, _ := typ.Parse(nil)
	for _, want := range []bool{true, false} {
		out := &scorerv1.ScoreResponse{}
		if err := typ.Score(t.Context(), in, ask(r, 50), out); err != nil || (out.GetScores()[0] > .3) != want {
			t.Errorf("%v, %v", out, err)
		}
		table, err := roster.NewTable([]roster.Endpoint{{ID: id(0), Host: "10.0.0.1", Port: 1, Labels: []roster.Label{{Name: label, Value: "60-70"}}}})
		if err != nil {
			t.Fatal(err)
		}
		r.SetTable(table)
	}
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ranges := rapid.SliceOfN(rapid.OneOf(rapid.StringMatching(`[0-9]{1,6}-[0-9]{1,6}`), rapid.Just("none"), rapid.String()), 1, 12).Draw(rt, "ranges")
		typ, r, _ := pool(t, ranges...)
		tokens := rapid.IntRange(0, 1<<20).Draw(rt, "tokens")
		a := score(t, typ, ask(r, tokens)).GetScores()
		order := rand.Perm(len(ranges))
		list := make([]*scorerv1.Candidate, len(ranges))
		for i, at := range order {
			list[i] = &scorerv1.Candidate{EndpointId: string(id(at))}
		}
		req := ask(r, tokens)
		req.Candidates = &scorerv1.ScoreRequest_Listed{Listed: &scorerv1.CandidateList{Candidates: list}}
		b := score(t, typ, req)
		if diff := cmp.Diff(&scorerv1.ScoreResponse{Scores: b.GetScores()}, b, protocmp.Transform()); diff != "" {
			rt.Fatal(diff)
		}
		for i, at := range order {
			if a[at] != b.GetScores()[i] || !(a[at] >= 0 && a[at] <= 1) {
				rt.Fatalf("scores %v, permuted by %v: %v", a, order, b.GetScores())
			}
		}
	})
}

func BenchmarkScore(b *testing.B) {
	ranges := make([]string, 256)
	for i := range ranges {
		ranges[i] = fmt.Sprintf("0-%d", 1000*i)
	}
	typ, r, _ := pool(b, ranges...)
	in, _, _ := typ.Parse(nil)
	req, out := ask(r, 500), &scorerv1.ScoreResponse{}
	b.ReportAllocs()
	for b.Loop() {
		if err := typ.Score(b.Context(), in, req, out); err != nil {
			b.Fatal(err)
		}
	}
}
