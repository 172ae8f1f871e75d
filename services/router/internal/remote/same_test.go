package remote

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// together holds calls back until there are n of them, and answers them in one message by
// what to says of the first and of the others.
func together(n int, to func(i int, call, first uint64) *scorerv1.StreamAnswer) func(*handmade, scorerv1.ScorerService_ScoreStreamServer) error {
	return func(s *handmade, st scorerv1.ScorerService_ScoreStreamServer) error {
		var calls []*scorerv1.StreamCall
		for {
			m, err := st.Recv()
			if err != nil {
				return err
			}
			s.note(m)
			if calls = append(calls, m.Calls...); len(calls) < n {
				continue
			}
			out := &scorerv1.ScoreStreamResponse{}
			for i, c := range calls {
				out.Answers = append(out.Answers, to(i, c.CallId, calls[0].CallId))
			}
			calls = nil
			if err := st.Send(out); err != nil {
				return err
			}
		}
	}
}

// asked asks n times at once.
func (r *rig) asked(n int, sc route.Scorer) []route.Scores {
	all := make([]route.Scores, n)
	var asking sync.WaitGroup
	for i := range n {
		asking.Go(func() { all[i] = r.ask(sc)[0] })
	}
	asking.Wait()
	return all
}

// An answer may be that to another call of the same message.
func TestAnswersMayReferToOthers(t *testing.T) {
	s := newHandmade("acme")
	s.stream = together(3, func(i int, call, first uint64) *scorerv1.StreamAnswer {
		if i > 0 {
			return &scorerv1.StreamAnswer{CallId: call, SameAsCallId: first}
		}
		return &scorerv1.StreamAnswer{CallId: call, Result: &scorerv1.StreamAnswer_Response{Response: &scorerv1.ScoreResponse{
			Scores: []float32{.25, .5, .75, 1}, AbstainedIndices: []uint32{2}, AbstainReason: scorerv1.AbstainReason_ABSTAIN_REASON_STALE_STATE,
		}}}
	})
	r := newRig(t, one("acme", s.serve(t, "")))
	sc := r.resolved("acme")
	for range 2 {
		for _, got := range r.asked(3, sc) {
			r.wantVerdict(got, route.Scored)
			if diff := cmp.Diff([]float32{.25, .5, 0, 1}, got.Values); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]uint32{2}, got.AbstainedOn); diff != "" {
				t.Error(diff)
			}
		}
	}
	accepts := 0
	for _, m := range s.heard() {
		if m.AcceptsSameAnswers {
			accepts++
		}
	}
	if accepts != 1 || !s.heard()[0].AcceptsSameAnswers {
		t.Errorf("%d messages say that references are accepted, want the first alone", accepts)
	}
	if n := r.value("pointsman_router_scorer_contract_breaches_total", "scorer", "acme"); n != 0 {
		t.Errorf("%v breaches", n)
	}
}

// A reference to what is not there is a broken contract.
func TestReferencesToNothing(t *testing.T) {
	for name, to := range map[string]func(i int, call, first uint64) *scorerv1.StreamAnswer{
		"to a call that was never made": func(_ int, call, _ uint64) *scorerv1.StreamAnswer {
			return &scorerv1.StreamAnswer{CallId: call, SameAsCallId: 1 << 40}
		},
		"to itself": func(_ int, call, _ uint64) *scorerv1.StreamAnswer {
			return &scorerv1.StreamAnswer{CallId: call, SameAsCallId: call}
		},
		"to an error": func(i int, call, first uint64) *scorerv1.StreamAnswer {
			if i == 0 {
				return &scorerv1.StreamAnswer{CallId: call, Result: &scorerv1.StreamAnswer_Error{Error: &scorerv1.Status{Code: 8, Message: "full", Reason: "OVERLOADED"}}}
			}
			return &scorerv1.StreamAnswer{CallId: call, SameAsCallId: first}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHandmade("acme")
			s.stream = together(2, to)
			r := newRig(t, one("acme", s.serve(t, "")))
			sc := r.resolved("acme")
			for _, got := range r.asked(2, sc) {
				if got.Verdict == route.Scored {
					t.Errorf("scored: %+v", got)
				}
			}
			kittest.Eventually(t, "the breach is counted", func() bool {
				return r.value("pointsman_router_scorer_contract_breaches_total", "scorer", "acme", "kind", "no_result") > 0
			})
		})
	}
}
