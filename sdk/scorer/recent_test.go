package scorer

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// ignoring is a stub whose answers do not depend on the request.
type ignoring struct{ *stub }

func (ignoring) IgnoresRequest() bool { return true }

// byQuestion scores by all that a question holds, and abstains where parameters say so.
func byQuestion() ignoring {
	typ := newStub("a")
	typ.score = func(_ context.Context, instance any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
		v := Scores(out, len(req.GetListed().GetCandidates()))
		for i := range v {
			v[i] = float32(len(instance.(string))) / 100
		}
		if instance == "{} " {
			Abstain(out, 1, scorerv1.AbstainReason_ABSTAIN_REASON_STALE_STATE)
		}
		return nil
	}
	return ignoring{typ}
}

// questions are calls of which the second and the last ask what the first does.
func questions() []*scorerv1.ScoreRequest {
	other := func(change func(*scorerv1.ScoreRequest)) *scorerv1.ScoreRequest {
		r := byTable("a", 7)
		r.Request.RequestId = "another"
		change(r)
		return r
	}
	return []*scorerv1.ScoreRequest{
		byTable("a", 7),
		other(func(*scorerv1.ScoreRequest) {}),
		other(func(r *scorerv1.ScoreRequest) { r.GetTable().Positions = []uint32{0, 2} }),
		other(func(r *scorerv1.ScoreRequest) { r.ParametersJson = []byte(`{}`) }),
		other(func(r *scorerv1.ScoreRequest) { r.Explain = true }),
		other(func(r *scorerv1.ScoreRequest) { r.Request.RequestId = "" }),
		other(func(r *scorerv1.ScoreRequest) { r.ScorerType = "b" }),
		other(func(r *scorerv1.ScoreRequest) { r.GetTable().TableDigest = 8 }),
		other(func(*scorerv1.ScoreRequest) {}),
	}
}

// exchange sends calls in one batch and returns their answers in order, those that refer to
// another as they were sent, and with what they refer to.
func (r *router) exchange(reqs []*scorerv1.ScoreRequest) (sent, resolved []*scorerv1.StreamAnswer) {
	r.t.Helper()
	b := &scorerv1.ScoreStreamRequest{}
	first := r.last + 1
	for _, req := range reqs {
		r.last++
		b.Calls = append(b.Calls, streamCall(r.last, proto.CloneOf(req)))
	}
	r.send(b)
	sent, resolved = make([]*scorerv1.StreamAnswer, len(reqs)), make([]*scorerv1.StreamAnswer, len(reqs))
	for got := 0; got < len(reqs); {
		m, err := r.stream.Recv()
		if err != nil {
			r.t.Fatal(err)
		}
		there := map[uint64]*scorerv1.StreamAnswer{}
		for _, a := range m.GetAnswers() {
			i := a.GetCallId() - first
			sent[i], resolved[i] = a, a
			if id := a.GetSameAsCallId(); id != 0 {
				if there[id].GetResponse() == nil || a.GetResult() != nil {
					r.t.Fatalf("%v refers to an answer that is not before it in %v", a, m)
				}
				resolved[i] = there[id]
			}
			there[a.GetCallId()] = a
			got++
		}
	}
	return sent, resolved
}

// Calls that ask the same of a type that ignores requests are answered by one Score, and by
// reference where the router accepts that. Each is counted, and answered as if it were alone.
func TestSameQuestionsAreAnsweredOnce(t *testing.T) {
	for name, accepts := range map[string]bool{"a router that accepts references": true, "one that does not": false} {
		t.Run(name, func(t *testing.T) {
			typ := byQuestion()
			var observed atomic.Int64
			cfg := DefaultConfig()
			cfg.Observe = func(Observation) { observed.Add(1) }
			s := newServerWith(t, cfg, allCapabilities, typ)
			r := connect(t, dial(t, s))
			r.send(&scorerv1.ScoreStreamRequest{Tables: []*scorerv1.TaughtTable{table3(7), table3(8)}, AcceptsSameAnswers: accepts})
			reqs := questions()
			var alone []*scorerv1.StreamAnswer
			for _, req := range reqs {
				_, one := r.exchange([]*scorerv1.ScoreRequest{req})
				alone = append(alone, one...)
			}
			// A batch that takes long is answered in parts, each with its own first answer.
			for try := 0; ; try++ {
				before, counted := typ.scores.Load(), observed.Load()
				sent, got := r.exchange(reqs)
				for i := range got {
					if diff := cmp.Diff(alone[i], got[i], protocmp.Transform(), protocmp.IgnoreFields(&scorerv1.StreamAnswer{}, "call_id")); diff != "" {
						t.Fatalf("call %d, alone and in a batch:\n%s", i, diff)
					}
				}
				if n := observed.Load() - counted; n != int64(len(reqs)) {
					t.Fatalf("%d calls were observed, not %d", n, len(reqs))
				}
				refers := sent[1].GetSameAsCallId() == sent[0].GetCallId() && sent[8].GetSameAsCallId() == sent[0].GetCallId()
				if n := typ.scores.Load() - before; n == 5 && refers == accepts {
					return
				}
				if try == 1000 {
					t.Fatalf("the last batch: %d times Score, answers %v", typ.scores.Load()-before, sent)
				}
			}
		})
	}
}

func TestAbstentionsAreAnsweredEachTime(t *testing.T) {
	typ := byQuestion()
	r := connect(t, dial(t, newServer(t, typ)))
	r.send(&scorerv1.ScoreStreamRequest{Tables: []*scorerv1.TaughtTable{table3(7)}, AcceptsSameAnswers: true})
	req := byTable("a", 7)
	req.ParametersJson = []byte(`{} `)
	sent, _ := r.exchange([]*scorerv1.ScoreRequest{req, req, req})
	for _, a := range sent {
		if len(a.GetResponse().GetAbstainedIndices()) != 1 {
			t.Errorf("answer %v", a)
		}
	}
	if n := typ.scores.Load(); n != 3 {
		t.Errorf("Score was called %d times", n)
	}
}

func TestQuestionsAreCompared(t *testing.T) {
	pending := func() *scorerv1.PendingPicks {
		return &scorerv1.PendingPicks{RouterId: "r", Sequences: []uint64{1}, Positions: []uint32{2}, UncachedTokenCounts: []uint32{3}}
	}
	request := func(change func(*scorerv1.ScoreRequest)) *scorerv1.ScoreRequest {
		r := byTable("a", 7, 1, 2)
		r.ParametersJson, r.Pending = []byte(`{}`), pending()
		change(r)
		return r
	}
	var r recent
	r.note(question(request(func(*scorerv1.ScoreRequest) {})), &slot{})
	if r.find(request(func(*scorerv1.ScoreRequest) {})) == nil {
		t.Error("the same question is not found")
	}
	for name, change := range map[string]func(*scorerv1.ScoreRequest){
		"type":             func(r *scorerv1.ScoreRequest) { r.ScorerType = "b" },
		"parameters":       func(r *scorerv1.ScoreRequest) { r.ParametersJson = nil },
		"table":            func(r *scorerv1.ScoreRequest) { r.GetTable().TableDigest++ },
		"positions":        func(r *scorerv1.ScoreRequest) { r.GetTable().Positions = nil },
		"listed":           func(r *scorerv1.ScoreRequest) { r.Candidates = listed("a", "x").Candidates },
		"explain":          func(r *scorerv1.ScoreRequest) { r.Explain = true },
		"no picks":         func(r *scorerv1.ScoreRequest) { r.Pending = nil },
		"another router":   func(r *scorerv1.ScoreRequest) { r.Pending.RouterId = "s" },
		"sequences":        func(r *scorerv1.ScoreRequest) { r.Pending.Sequences[0]++ },
		"picked positions": func(r *scorerv1.ScoreRequest) { r.Pending.Positions[0]++ },
		"tokens":           func(r *scorerv1.ScoreRequest) { r.Pending.UncachedTokenCounts[0]++ },
		"not valid":        func(r *scorerv1.ScoreRequest) { r.Request = nil },
	} {
		if r.find(request(change)) != nil {
			t.Errorf("%s: taken for the same", name)
		}
	}
	r.forget()
	if r.find(request(func(*scorerv1.ScoreRequest) {})) != nil {
		t.Error("it is found although all is forgotten")
	}
}
