package scorer

import (
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// mostSlots is how many answers a stream keeps for use in the next batch.
const mostSlots = 256

// slot is one answer with all that it consists of, so that a batch is answered
// without making new objects.
type slot struct {
	answer   scorerv1.StreamAnswer
	ok       scorerv1.StreamAnswer_Response
	response scorerv1.ScoreResponse
	failed   scorerv1.StreamAnswer_Error
	status   scorerv1.Status
	served   *served // what response is of
}

// slots are the answers of one batch. They are used again after it is sent: gRPC
// has encoded them by then.
type slots struct {
	made []*slot
	used int
	out  scorerv1.ScoreStreamResponse
}

func (s *slots) next() *slot {
	if s.used == len(s.made) {
		n := &slot{}
		n.ok.Response = &n.response
		n.failed.Error = &n.status
		s.made = append(s.made, n)
	}
	n := s.made[s.used]
	s.used++
	empty(&n.response)
	return n
}

func (s *slots) batch() *scorerv1.ScoreStreamResponse {
	s.out.Answers = s.out.Answers[:0]
	for _, n := range s.made[:s.used] {
		s.out.Answers = append(s.out.Answers, &n.answer)
	}
	return &s.out
}

func (s *slots) reset() {
	if len(s.made) > mostSlots {
		clear(s.made[mostSlots:])
		s.made = s.made[:mostSlots]
		s.out.Answers = nil
	}
	s.used = 0
}

func (n *slot) fail(e *Error) {
	n.status.Code, n.status.Message, n.status.Reason = int32(e.Code), e.Message, e.Reason
	n.answer.Result = &n.failed
}

// repeat makes it the same answer as another of its message, by referring to that if the
// router accepts it. It returns about how many bytes that takes.
func (n *slot) repeat(other *slot, refer bool) int {
	if refer {
		n.answer.Result, n.answer.SameAsCallId = nil, other.answer.CallId
		return 16
	}
	n.answer.Result = &other.ok
	return other.size()
}

// size is about how many bytes the answer takes on the wire.
func (n *slot) size() int {
	if n.answer.Result == &n.failed {
		return 32 + len(n.status.Message)
	}
	r := &n.response
	size := 48 + 4*len(r.Scores) + 3*len(r.AbstainedIndices) + 3*len(r.MatchedBlockCounts)
	for _, e := range r.Explanations {
		size += 16 + len(e.GetText())
	}
	return size
}
