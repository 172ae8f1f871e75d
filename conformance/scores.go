package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// budget is what all scorers of a router have together, by default.
const budget = 20 * time.Millisecond

func scoreChecks() []Check {
	answers := []Check{
		{ID: "score-count", Title: "there is one score per candidate", Fix: "give as many scores as there are candidates, in their order; or set abstained_on_all and give none"},
		{ID: "score-range", Title: "scores are numbers from 0 to 1", Fix: "clamp scores, and abstain where there is no number, as after a division by zero"},
		{ID: "score-abstained", Title: "abstentions are positions, ascending, each once", Fix: "sort abstained_indices, leave out doubles, count from 0"},
		{ID: "score-abstain-reason", Title: "abstentions have a reason", Fix: "set abstain_reason wherever you abstain"},
		{ID: "score-matched", Title: "matched blocks are told of every candidate, no more than were sent", Fix: "give one matched_block_counts per candidate, or none at all"},
		{ID: "score-state-age", Title: "the age of what it knows is not negative", Fix: "leave state_age out, or measure it with a clock that does not go back"},
		{ID: "score-requests-per-point", Title: "requests per point are a number, not below 0", Fix: "leave requests_per_point out unless you count requests"},
	}
	for i := range answers {
		id := answers[i].ID
		answers[i].Level = Must
		answers[i].run = func(ctx context.Context, s *subject) error { return s.checkAnswers(ctx, id) }
	}
	explained := func(run func(context.Context, *subject) error) func(context.Context, *subject) error {
		return withCapability(scorerv1.Capability_CAPABILITY_EXPLAIN, run)
	}
	return append(answers, []Check{
		{
			ID: "score-opinion", Level: Should, Title: "it has an opinion on some endpoint",
			Fix: "none if it has no opinion on endpoints that are made up: name some that it knows with --endpoint, --label, --header", run: checkOpinion,
		},
		{
			ID: "score-order", Level: Must, Title: "scores follow the candidates, in whatever order",
			Fix: "do not let a candidate's position count; break ties by its id", run: checkOrder,
		},
		{
			ID: "score-repeat", Level: Must, Title: "asking again gives the same, however often",
			Fix: "do not count calls as picks, and draw lots by the request id instead of at random", run: checkRepeat,
		},
		{
			ID: "score-concurrent", Level: Must, Title: "calls at the same time do not disturb each other",
			Fix: "keep nothing of a call in what calls share", run: checkConcurrent,
		},
		{
			ID: "score-bare", Level: Must, Title: "figures that are not known are no error",
			Fix: "abstain on candidates that lack what you need", run: checkBare,
		},
		{
			ID: "score-alias", Level: Must, Title: "a type answers under its aliases too",
			Fix: "treat an alias as the type's name in every call", run: checkAlias,
		},
		{
			ID: "score-cancel", Level: Must, Title: "calls that are cancelled do no harm",
			Fix: "give up work when the call is cancelled, and hold nothing", run: checkCancel,
		},
		{
			ID: "score-deadline", Level: Must, Title: "short of time it gives a whole answer or DEADLINE_EXCEEDED",
			Fix: "abstain on the candidates that there is no time for, or end the call", run: checkDeadline,
		},
		{
			ID: "score-time", Level: Should, Title: "64 candidates take less than 20 ms",
			Fix: "do work beforehand; routers wait 20 ms for all scorers together unless told otherwise", run: checkTime,
		},
		{
			ID: "explain-texts", Level: Must, Title: "explanations are lines about candidates",
			Fix: "give a candidate_index that there is and one line of text", run: explained(checkTexts),
		},
		{
			ID: "explain-same", Level: Must, Title: "explaining changes no score",
			Fix: "compute scores before looking at explain", run: explained(checkExplainSame),
		},
		{
			ID: "explain-unasked", Level: Must, Title: "nothing is explained unasked",
			Fix: "send explanations only if explain is set and CAPABILITY_EXPLAIN is listed", run: checkUnasked,
		},
	}...)
}

// sample is an answer that each rule about answers by themselves is held against.
type sample struct {
	request  *scorerv1.ScoreRequest
	response *scorerv1.ScoreResponse
}

// samples asks, once.
func (s *subject) samples(ctx context.Context) ([]sample, error) {
	if s.answers != nil {
		return s.answers, nil
	}
	var all []sample
	for _, n := range []int{1, 2, 7, 64} {
		req := s.request(n)
		resp, err := s.score(ctx, req)
		if err != nil {
			return nil, silence{broken("Score of %d candidates: %s", n, words(err))}
		}
		all = append(all, sample{req, resp})
	}
	s.answers = all
	return all, nil
}

func (s *subject) checkAnswers(ctx context.Context, rule string) error {
	all, err := s.samples(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := wrong(one.response, one.request, rule); err != nil {
			return err
		}
	}
	return nil
}

// opinions asks for scores that must be good and returns what they say.
func (s *subject) opinions(ctx context.Context, req *scorerv1.ScoreRequest) ([]opinion, error) {
	resp, err := s.scored(ctx, req)
	if err != nil {
		return nil, err
	}
	all := opinions(resp, len(req.GetListed().GetCandidates()))
	if slices.ContainsFunc(all, func(o opinion) bool { return !o.abstained }) {
		s.rated.Store(true)
	}
	return all, nil
}

func checkOpinion(ctx context.Context, s *subject) error {
	if _, err := s.opinions(ctx, s.request(7)); err != nil {
		return err
	}
	if !s.rated.Load() {
		return broken("it abstained on every candidate, so nothing can be said of its scores")
	}
	return nil
}

func checkOrder(ctx context.Context, s *subject) error {
	return steadily(ctx, func() error {
		req := s.request(9)
		first, err := s.opinions(ctx, req)
		if err != nil {
			return err
		}
		alike := !slices.ContainsFunc(first, func(o opinion) bool { return o != first[0] })
		order := rand.New(rand.NewPCG(1, 2)).Perm(9)
		shuffled := clone(req)
		for i, to := range order {
			shuffled.GetListed().Candidates[to] = req.GetListed().GetCandidates()[i]
		}
		second, err := s.opinions(ctx, shuffled)
		if err != nil {
			return err
		}
		if err := differ(first, second, func(i int) int { return order[i] }); err != nil {
			return err
		}
		if alike && s.rated.Load() {
			return notApplicable("all candidates got the same score, which shows nothing")
		}
		return nil
	})
}

func checkRepeat(ctx context.Context, s *subject) error {
	return steadily(ctx, func() error {
		req := s.request(7)
		first, err := s.opinions(ctx, req)
		if err != nil {
			return err
		}
		for range 40 {
			again, err := s.opinions(ctx, req)
			if err != nil {
				return err
			}
			if err := differ(first, again, same); err != nil {
				return err
			}
		}
		return nil
	})
}

func checkConcurrent(ctx context.Context, s *subject) error {
	return steadily(ctx, func() error {
		const callers = 16
		var waiting sync.WaitGroup
		errs := make([]error, callers)
		alone := make([][]opinion, callers)
		for i := range callers {
			var err error
			if alone[i], err = s.opinions(ctx, s.request(1+i)); err != nil {
				return err
			}
		}
		for i := range callers {
			waiting.Go(func() {
				together, err := s.opinions(ctx, s.request(1+i))
				if err == nil {
					err = differ(alone[i], together, same)
				}
				errs[i] = err
			})
		}
		waiting.Wait()
		return cmpFirst(errs)
	})
}

// cmpFirst returns the first error that there is.
func cmpFirst(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkBare(ctx context.Context, s *subject) error {
	req := s.request(5)
	for i, c := range req.GetListed().GetCandidates() {
		if i%2 == 0 {
			c.Load, c.Labels, c.Adapters = nil, nil, nil
		} else if c.Load != nil {
			c.Load = &scorerv1.EndpointLoad{}
		}
	}
	req.Request = &scorerv1.InferenceRequest{RequestId: "conformance"}
	_, err := s.scored(ctx, req)
	return err
}

func checkAlias(ctx context.Context, s *subject) error {
	if len(s.typ.GetAliases()) == 0 {
		return notApplicable("it has none")
	}
	for _, alias := range s.typ.GetAliases() {
		m, err := s.validate(ctx, alias, s.options.Parameters)
		if err != nil {
			return broken("ValidateParameters of %s: %s", alias, words(err))
		}
		if len(m.GetFaults()) > 0 {
			return broken("under %s it says of the parameters: %s", alias, faultWords(m.GetFaults()))
		}
		err = steadily(ctx, func() error {
			req := s.request(5)
			first, err := s.opinions(ctx, req)
			if err != nil {
				return err
			}
			req.ScorerType = alias
			second, err := s.opinions(ctx, req)
			if err != nil {
				return broken("under %s: %w", alias, err)
			}
			return differ(first, second, same)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func checkCancel(ctx context.Context, s *subject) error {
	req := s.request(64)
	for i := range 20 {
		cancelled, cancel := context.WithCancel(ctx)
		stop := time.AfterFunc(time.Duration(i)*200*time.Microsecond, cancel)
		_, err := s.score(cancelled, req)
		stop.Stop()
		cancel()
		if code := status.Code(err); err != nil && code != codes.Canceled && code != codes.DeadlineExceeded {
			return broken("a call that was cancelled: %s", words(err))
		}
	}
	if _, err := s.scored(ctx, req); err != nil {
		return broken("after calls that were cancelled: %w", err)
	}
	return nil
}

func checkDeadline(ctx context.Context, s *subject) error {
	req := s.request(128)
	answered := 0
	// From no time at all to enough for three answers.
	for d := time.Millisecond; d < s.options.Timeout/2 && answered < 3; d += d / 2 {
		short, cancel := context.WithTimeout(ctx, d)
		resp, err := s.client.Score(short, req)
		cancel()
		if err != nil {
			if err := wantCode("Score with little time", err, codes.DeadlineExceeded, codes.Canceled); err != nil {
				return err
			}
			continue
		}
		if err := wrong(resp, req, ""); err != nil {
			return broken("with little time: %w", err)
		}
		answered++
	}
	if answered == 0 {
		return notApplicable(fmt.Sprintf("it answers nothing within %v, and ends its calls", s.options.Timeout/2))
	}
	return nil
}

func checkTime(ctx context.Context, s *subject) error {
	req := s.request(64)
	best := s.options.Timeout
	end := time.Now().Add(s.options.Timeout)
	for tries := 0; tries < 50 && time.Now().Before(end); tries++ { // so many since this machine may be busy
		began := time.Now()
		if _, err := s.opinions(ctx, req); err != nil {
			return err
		}
		if best = min(best, time.Since(began)); best < budget {
			return nil
		}
	}
	return broken("its quickest answer took %v", best.Round(time.Millisecond))
}

func checkTexts(ctx context.Context, s *subject) error {
	req := s.request(5)
	req.Explain = true
	resp, err := s.scored(ctx, req)
	if err != nil {
		return err
	}
	for i, e := range resp.GetExplanations() {
		switch {
		case e.GetCandidateIndex() >= 5:
			return broken("explanations[%d] is about candidate %d of 5", i, e.GetCandidateIndex())
		case e.GetText() == "":
			return broken("explanations[%d] is empty", i)
		case slices.ContainsFunc([]rune(e.GetText()), func(r rune) bool { return r < ' ' || r == 0x7f }):
			return broken("explanations[%d] is more than one line, or has control characters", i)
		}
	}
	return nil
}

func checkExplainSame(ctx context.Context, s *subject) error {
	return steadily(ctx, func() error {
		req := s.request(7)
		first, err := s.opinions(ctx, req)
		if err != nil {
			return err
		}
		req.Explain = true
		second, err := s.opinions(ctx, req)
		if err != nil {
			return err
		}
		return differ(first, second, same)
	})
}

func checkUnasked(ctx context.Context, s *subject) error {
	req := s.request(3)
	req.Explain = !s.has(scorerv1.Capability_CAPABILITY_EXPLAIN)
	resp, err := s.scored(ctx, req)
	if err != nil {
		return err
	}
	if n := len(resp.GetExplanations()); n > 0 {
		return broken("it sent %d explanations", n)
	}
	return nil
}
