package scorer

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"google.golang.org/grpc/codes"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// answer handles one call and returns what has answered it, nil if nothing does. taught is
// nil for a unary call. req is changed if the table it refers to is resolved here; out must
// be empty. A non-nil error is an *Error.
func (s *Server) answer(ctx context.Context, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse, taught *tables) (*served, error) {
	var began time.Time
	if s.cfg.Observe != nil {
		began = time.Now()
	}
	sv, err := s.lookup(req.GetScorerType())
	if err == nil {
		err = s.score(ctx, sv, req, out, taught)
	}
	if err != nil {
		err = contract(err)
	}
	s.observe(sv, out, err, began, taught != nil)
	return sv, err
}

// observe tells of a call that was answered.
func (s *Server) observe(sv *served, out *scorerv1.ScoreResponse, err error, began time.Time, stream bool) {
	if s.cfg.Observe == nil {
		return
	}
	o := Observation{Stream: stream, Took: time.Since(began)}
	if sv != nil {
		o.Type = sv.name
	}
	if err != nil {
		o.Code = contract(err).Code
	} else {
		o.Abstained = abstainedAll(out)
	}
	s.cfg.Observe(o)
}

func (s *Server) score(ctx context.Context, sv *served, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse, taught *tables) error {
	if err := checkRequest(req); err != nil {
		return err
	}
	p, err := s.parse(sv, req.GetParametersJson())
	if err != nil {
		return err
	}
	if p.refusal != nil {
		return p.refusal
	}
	ref := req.GetTable()
	if ref == nil {
		return s.call(ctx, sv, p, req, out, candidateCount(req))
	}
	n := candidateCount(req)
	if taught == nil {
		if !s.capabilities[scorerv1.Capability_CAPABILITY_TABLE_REFERENCE] {
			return missing("CAPABILITY_TABLE_REFERENCE")
		}
		if !sv.follows {
			return TableNotHeld(ref.GetTableDigest())
		}
		return s.call(ctx, sv, p, req, out, n)
	}
	t := taught.find(ref.GetTableDigest())
	if err := t.check(ref); err != nil {
		return err
	}
	if n < 0 && t != nil {
		n = len(t.all.Listed.Candidates)
	}
	if sv.follows {
		err := s.call(ctx, sv, p, req, out, n)
		if t == nil || !notHeld(err) {
			return err
		}
		empty(out)
	}
	if t == nil {
		return TableNotHeld(ref.GetTableDigest())
	}
	taught.list(t, req)
	return s.call(ctx, sv, p, req, out, n)
}

// call calls the Type and checks its answer. n is the number of candidates, -1
// if only the Type knows it.
func (s *Server) call(ctx context.Context, sv *served, p *parsed, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse, n int) (err error) {
	defer s.recovered(sv, &err)
	if err := sv.typ.Score(ctx, p.instance, req, out); err != nil {
		return err
	}
	if !req.GetExplain() || !s.capabilities[scorerv1.Capability_CAPABILITY_EXPLAIN] {
		out.Explanations = nil
	}
	if s.cfg.CheckAnswers {
		if err := checkAnswer(out, n); err != nil {
			s.log.Error("a scorer type broke the contract", "scorer", sv.name, "error", err)
			return internal("%s broke the contract: %s", sv.name, contract(err).Message)
		}
	}
	return nil
}

func (s *Server) parse(sv *served, text []byte) (p *parsed, err error) {
	defer s.recovered(sv, &err)
	return sv.parameters.get(text), nil
}

// effective returns what good parameters come to; nil if the type does not tell.
func (s *Server) effective(sv *served, text []byte) (effective []byte, err error) {
	teller, ok := sv.typ.(ParameterTeller)
	if !ok {
		return nil, nil
	}
	defer s.recovered(sv, &err)
	effective = teller.EffectiveParameters(bytes.Clone(text))
	if len(effective) > 0 && notAnObject(effective) != nil {
		s.log.Error("a scorer type told parameters that are no JSON object", "scorer", sv.name)
		return nil, nil
	}
	return effective, nil
}

// recovered turns a panic of a Type into an error of the one call.
func (s *Server) recovered(sv *served, err *error) {
	if v := recover(); v != nil {
		s.log.Error("a scorer type panicked", "scorer", sv.name, "panic", panicText(v), "stack", string(debug.Stack()))
		*err = &Error{codes.Internal, "", sv.name + " panicked; its log says where"}
	}
}

// panicText is what may be written of a panic's value: it could hold a prompt,
// unless it is the runtime's.
func panicText(v any) string {
	if e, ok := v.(runtime.Error); ok {
		return e.Error()
	}
	return fmt.Sprintf("a value of type %T", v)
}
