package remote

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Report tells the scorers that take outcomes by call what becomes of one request.
// One goroutine uses it at a time.
type Report struct {
	request  string
	endpoint roster.ID
	boxes    []*outbox
	picks    []*scorerv1.Picked // per box, without a score: for a second pick
}

// Picked begins the report of a request that was given to endpoint e by the profile
// result res. It returns nil if no scorer wants it, which costs next to nothing.
func (s *Set) Picked(c *route.Cycle, e *roster.Endpoint, res *route.ProfileResult) *Report {
	boxes := s.outboxes.list()
	if len(boxes) == 0 {
		return nil
	}
	r := &Report{request: c.Request.ID, endpoint: e.ID, boxes: boxes}
	at := time.Now()
	for i, b := range boxes {
		if i > 0 && b.replica.service == boxes[i-1].replica.service {
			r.picks = append(r.picks, r.picks[i-1])
		} else {
			r.picks = append(r.picks, &scorerv1.Picked{Prefix: prefixFor(b.replica.service, c.Snapshot.Table, c.Request, res)})
		}
		b.add(r.picked(at, &scorerv1.Picked{OwnScore: ownScore(b.replica.service, res), Prefix: r.picks[i].Prefix}))
	}
	return r
}

// FirstToken tells the time from the pick to the first byte of the answer.
func (r *Report) FirstToken(elapsed time.Duration) {
	o := r.outcome(time.Now())
	o.Event = &scorerv1.Outcome_FirstToken{FirstToken: &scorerv1.FirstToken{Elapsed: durationpb.New(elapsed)}}
	r.tell(o)
}

// Moved tells that another endpoint was picked, after Finished for the first.
func (r *Report) Moved(to roster.ID) {
	r.endpoint = to
	at := time.Now()
	for i, b := range r.boxes {
		b.add(r.picked(at, r.picks[i]))
	}
}

// Finished tells the end on the endpoint; completed says that it answered in full.
func (r *Report) Finished(elapsed time.Duration, completed bool, u route.Usage) {
	f := &scorerv1.Finished{
		Reason: scorerv1.FinishReason_FINISH_REASON_UNSPECIFIED, Elapsed: durationpb.New(elapsed),
		PromptTokenCount: reported(u.PromptTokens), CachedPromptTokenCount: reported(u.CachedPromptTokens), OutputTokenCount: reported(u.OutputTokens),
	}
	if completed {
		f.Reason = scorerv1.FinishReason_FINISH_REASON_COMPLETED
	}
	o := r.outcome(time.Now())
	o.Event = &scorerv1.Outcome_Finished{Finished: f}
	r.tell(o)
}

func (r *Report) tell(o *scorerv1.Outcome) {
	for _, b := range r.boxes {
		b.add(o)
	}
}

func (r *Report) outcome(at time.Time) *scorerv1.Outcome {
	return &scorerv1.Outcome{RequestId: r.request, EndpointId: string(r.endpoint), EventTime: timestamppb.New(at)}
}

func (r *Report) picked(at time.Time, p *scorerv1.Picked) *scorerv1.Outcome {
	o := r.outcome(at)
	o.Event = &scorerv1.Outcome_Picked{Picked: p}
	return o
}

// ownScore is the score that the service gave the pick, nil if it gave none.
func ownScore(s *service, res *route.ProfileResult) *float32 {
	if res == nil || len(res.Ranked) == 0 {
		return nil
	}
	at := int(res.Ranked[0])
	for i := range res.Scores {
		sc := &res.Scores[i]
		in, ok := res.Profile.Scorers[i].Asked.(*Instance)
		if !ok || in.service != s || sc.Verdict != route.Scored || at >= len(sc.Values) {
			continue
		}
		if _, abstained := slices.BinarySearch(sc.AbstainedOn, uint32(at)); !abstained { //nolint:gosec // a candidate's index
			v := sc.Values[at]
			return &v
		}
	}
	return nil
}

// prefixFor is the prompt in the blocks that the service asks for, nil if it asks for
// none.
func prefixFor(s *service, t *roster.Table, req *route.Request, res *route.ProfileResult) *scorerv1.PrefixBlocks {
	if req.Prompt == nil || res == nil {
		return nil
	}
	for _, sc := range res.Profile.Scorers {
		in, ok := sc.Asked.(*Instance)
		if !ok || in.service != s {
			continue
		}
		if size, limit := in.PrefixNeeds(t); size > 0 {
			return &scorerv1.PrefixBlocks{Scheme: route.Scheme, BlockSizeBytes: uint32(size), Hashes: req.Prompt.Blocks(size, limit)} //nolint:gosec // it came as a uint32
		}
	}
	return nil
}

func reported(tokens int64) *uint32 {
	if tokens < 0 {
		return nil
	}
	n := uint32(min(tokens, 1<<32-1)) //nolint:gosec // bounded
	return &n
}
