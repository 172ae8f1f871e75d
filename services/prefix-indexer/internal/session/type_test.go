package session

import (
	"encoding/base64"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

const pool = "my/pool"

func newType(t testing.TB, ids ...string) (*Type, *roster.Roster, *int) {
	r := roster.New(roster.Config{Clock: func() int64 { return int64(time.Hour) }})
	endpoints := make([]roster.Endpoint, len(ids))
	for i, id := range ids {
		endpoints[i] = roster.Endpoint{ID: roster.ID(id), Host: "10.0.0.1", Port: uint16(1 + i)}
	}
	table, err := roster.NewTable(endpoints)
	if err != nil {
		t.Fatal(err)
	}
	r.SetTable(table)
	abstained := new(int)
	return New(Config{Pool: pool, Roster: r, Abstained: func(_ string, _ scorerv1.AbstainReason, n int) { *abstained += n }}), r, abstained
}

func ask(r *roster.Roster, name, value string, positions ...uint32) *scorerv1.ScoreRequest {
	req := &scorerv1.ScoreRequest{
		Request:    &scorerv1.InferenceRequest{RequestId: "r"},
		Candidates: &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: r.Snapshot().Table.Digest, Positions: positions}},
	}
	if value != "" {
		req.Request.Headers = []*scorerv1.Header{{Name: "x-other", Value: "y"}, {Name: name, Value: value}}
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

func token(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestScores(t *testing.T) {
	for name, c := range map[string]struct {
		value     string
		positions []uint32
		want      []float32 // nil: abstained
	}{
		"the endpoint of the token":       {token("my/pool/ns/b"), nil, []float32{0, 0, 1}},
		"among some":                      {token("my/pool/c"), []uint32{0, 1}, []float32{0, 1}},
		"not among them":                  {token("my/pool/ns/b"), []uint32{0, 1}, nil},
		"an endpoint that has left":       {token("my/pool/d"), nil, nil},
		"another pool":                    {token("my/other/c"), nil, nil},
		"a token of another picker":       {token("default/pod-a"), nil, nil},
		"no endpoint":                     {token("my/pool/"), nil, nil},
		"no base64":                       {"%%", nil, nil},
		"no token":                        {"", nil, nil},
		"a token longer than any of ours": {token("my/pool/" + string(make([]byte, 2000))), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			typ, r, abstained := newType(t, "a", "c", "ns/b")
			got := score(t, typ, ask(r, "x-session-token", c.value, c.positions...))
			want := &scorerv1.ScoreResponse{Scores: c.want}
			n := 0
			if c.want == nil {
				want = &scorerv1.ScoreResponse{AbstainedOnAll: true, AbstainReason: scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE}
				if n = 3; c.positions != nil {
					n = len(c.positions)
				}
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || *abstained != n {
				t.Errorf("%d reported, want %d, (-want +got):\n%s", *abstained, n, diff)
			}
		})
	}
}

func TestListedAndPermuted(t *testing.T) {
	typ, r, _ := newType(t, "a", "b")
	ids := []string{"x", "b", "a"}
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	list := &scorerv1.CandidateList{}
	for _, id := range ids {
		list.Candidates = append(list.Candidates, &scorerv1.Candidate{EndpointId: id})
	}
	req := ask(r, "x-session-token", token("my/pool/b"))
	req.Candidates, req.Explain = &scorerv1.ScoreRequest_Listed{Listed: list}, true
	got := score(t, typ, req)
	for i, id := range ids {
		want, text := float32(0), "another endpoint answered before"
		if id == "b" {
			want, text = 1, "the endpoint that answered before"
		}
		if got.GetScores()[i] != want || got.GetExplanations()[i].GetText() != text {
			t.Errorf("%s: %v, %q", id, got.GetScores()[i], got.GetExplanations()[i].GetText())
		}
	}
}

func TestParameters(t *testing.T) {
	typ, r, _ := newType(t, "a")
	in, n, faults := typ.Parse([]byte(`{"headerName":"X-Sticky"}`))
	if len(faults) > 0 || in != "x-sticky" || n.GetSessionHeaderName() != "x-sticky" || !cmp.Equal(n.GetHeaderNames(), []string{"x-sticky"}) {
		t.Errorf("%v, needs %v, faults %v", in, n, faults)
	}
	if n := typ.Info().GetDefaultNeeds(); n.GetSessionHeaderName() != "x-session-token" || !cmp.Equal(n.GetHeaderNames(), []string{"x-session-token"}) {
		t.Errorf("default needs %v", n)
	}
	for _, text := range []string{`{"headerName":""}`, `{"headerName":"a b"}`, `{"headerName":7}`, `{"header":"x"}`, `{"headerName":"a:b"}`} {
		if _, _, faults := typ.Parse([]byte(text)); len(faults) != 1 {
			t.Errorf("%s: faults %v", text, faults)
		}
	}
	name, _, _ := typ.Parse(nil)
	for _, req := range []*scorerv1.ScoreRequest{ask(r, "", "", 0, 1), {Candidates: &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: 1}}}} {
		if err := typ.Score(t.Context(), name, req, &scorerv1.ScoreResponse{}); err == nil {
			t.Errorf("%v: no error", req)
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add("bXkvcG9vbC9h")
	f.Add("=")
	f.Add("")
	typ, r, _ := newType(f, "a", "b")
	f.Fuzz(func(t *testing.T, value string) {
		got := score(t, typ, ask(r, "x-session-token", value))
		if got.GetAbstainedOnAll() == (len(got.GetScores()) == 2) {
			t.Errorf("%q: %v", value, got)
		}
	})
}
