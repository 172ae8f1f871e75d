package remote

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// FuzzInfo decodes what a stranger says of itself.
func FuzzInfo(f *testing.F) {
	for _, m := range []*scorerv1.GetScorerInfoResponse{
		newHandmade("acme").info,
		{Name: "x", Version: "\x00", Types: []*scorerv1.ScorerType{{}, nil}},
	} {
		if b, err := proto.Marshal(m); err == nil {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &scorerv1.GetScorerInfoResponse{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		in, err := readInfo(m)
		if err != nil {
			return
		}
		if !goodName(in.name) || len(in.version) > maxWords+len("…") || len(in.types) == 0 {
			t.Fatalf("accepted %+v", in)
		}
		for _, typ := range in.types {
			if !goodName(typ) || !in.serves(typ) {
				t.Fatalf("accepted type %q", typ)
			}
		}
		for _, typ := range m.Types {
			if n, err := readNeeds(typ.GetDefaultNeeds(), false); err == nil {
				if n.PromptText || n.Prefix && (n.BlockSize <= 0 || n.BlockLimit <= 0 || n.BlockLimit > maxHashes) {
					t.Fatalf("accepted needs %+v", n)
				}
			}
		}
	})
}

// loopback is a line on which a call is answered at once with what the fuzzer thinks of.
type loopback struct {
	*stream
	answers []*scorerv1.StreamAnswer
}

func (l *loopback) submit(f *flight) error {
	l.calls[f.id] = f
	l.receive(l.answers)
	if l.calls[f.id] == f {
		delete(l.calls, f.id)
		f.faulted(l.session, fault{verdict: route.Failed, reason: "no answer"})
	}
	return nil
}

// FuzzReceive decodes what a stranger answers on a stream: each call ends once, and
// what is accepted keeps the rules.
func FuzzReceive(f *testing.F) {
	ok := &scorerv1.StreamAnswer_Response{Response: &scorerv1.ScoreResponse{Scores: []float32{0, 1, 0, 1}, AppliedOutcomeSequence: 3}}
	for _, m := range []*scorerv1.ScoreStreamResponse{
		{Answers: []*scorerv1.StreamAnswer{{CallId: 1, Result: ok}}},
		{Answers: []*scorerv1.StreamAnswer{{CallId: 1, Result: ok}, {CallId: 1, Result: ok}, {CallId: 9}}},
		{Answers: []*scorerv1.StreamAnswer{{CallId: 1}}},
		{Answers: []*scorerv1.StreamAnswer{{CallId: 1, Result: &scorerv1.StreamAnswer_Error{Error: &scorerv1.Status{Code: 9, Reason: tableNotHeld}}}}},
		{Answers: []*scorerv1.StreamAnswer{{CallId: 1, Result: &scorerv1.StreamAnswer_Error{Error: &scorerv1.Status{Code: -1, Message: "\xff"}}}}},
	} {
		if b, err := proto.Marshal(m); err == nil {
			f.Add(b)
		}
	}
	r := newRig(f, one("acme", "127.0.0.1:1"), func(c *rigConfig) { c.idle = true; c.timeout = time.Second })
	svc := r.set.services[3]
	in := newInstance(svc, "p", "acme", nil)
	sc := route.Scorer{Asked: in}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &scorerv1.ScoreStreamResponse{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		rep := newReplica(svc, "127.0.0.1:1")
		defer rep.leave()
		s := &session{replica: rep, info: &info{}}
		s.ready.Store(true)
		s.line = &loopback{&stream{session: s, wake: make(chan struct{}, 1), calls: make(map[uint64]*flight)}, m.Answers}
		in.bindings.Store(&[]binding{{session: s, needs: &needs{}}})
		svc.ids.Store(0)
		out := r.ask(sc)[0]
		if out.Verdict == route.Scored {
			for _, v := range out.Values {
				if !(v >= 0 && v <= 1) || len(out.Values) != 4 {
					t.Fatalf("accepted %v", out.Values)
				}
			}
		} else if out.Reason == "" {
			t.Fatalf("%v without a reason", out.Verdict)
		}
		if n := rep.open.Load(); n != 0 {
			t.Fatalf("%d calls are still open", n)
		}
	})
}
