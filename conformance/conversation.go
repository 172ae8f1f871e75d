package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// conversation is one stream, seen from the router's end.
type conversation struct {
	stream grpc.BidiStreamingClient[scorerv1.ScoreStreamRequest, scorerv1.ScoreStreamResponse]
	hangUp context.CancelFunc
	s      *subject
}

// converse opens a stream and names the router. What is said on it takes no longer than
// the timeout of a call.
func (s *subject) converse(ctx context.Context) (*conversation, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	stream, err := s.client.ScoreStream(ctx)
	if err == nil {
		err = stream.Send(&scorerv1.ScoreStreamRequest{RouterId: "conformance"})
	}
	if err != nil && !errors.Is(err, io.EOF) { // else Recv says why
		cancel()
		return nil, err
	}
	return &conversation{stream: stream, hangUp: cancel, s: s}, nil
}

// end says that nothing more comes and waits for the other side to end. Messages without
// answers are nobody's business.
func (c *conversation) end() error {
	if err := c.stream.CloseSend(); err != nil {
		return err
	}
	for {
		m, err := c.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(m.GetAnswers()) > 0:
			return fmt.Errorf("%d answers to no call", len(m.GetAnswers()))
		}
	}
}

// broke says how the stream ended before its time.
func broke(err error, when string, args ...any) error {
	why := "it was ended"
	if !errors.Is(err, io.EOF) {
		why = words(err)
	}
	err = broken("ScoreStream, "+when+": %s", append(args, why)...)
	if why == codes.DeadlineExceeded.String() || strings.HasPrefix(why, codes.DeadlineExceeded.String()+":") {
		return silence{err}
	}
	return err
}

// say sends a batch.
func (c *conversation) say(batch *scorerv1.ScoreStreamRequest) error {
	if err := c.stream.Send(batch); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("ScoreStream: %s", words(err))
	}
	return nil
}

// hear gathers answers until there is one for each id, and refuses others.
func (c *conversation) hear(ids ...uint64) (map[uint64]*scorerv1.StreamAnswer, error) {
	got := make(map[uint64]*scorerv1.StreamAnswer)
	for len(got) < len(ids) {
		m, err := c.stream.Recv()
		if err != nil {
			return nil, broke(err, "after %d of %d answers", len(got), len(ids))
		}
		for _, a := range m.GetAnswers() {
			switch id := a.GetCallId(); {
			case !slices.Contains(ids, id):
				return nil, fmt.Errorf("call %d is answered, which was not made", id)
			case got[id] != nil:
				return nil, fmt.Errorf("call %d is answered twice", id)
			case a.GetResult() == nil:
				return nil, fmt.Errorf("the answer to call %d is neither scores nor an error", id)
			default:
				got[id] = a
			}
		}
	}
	return got, nil
}

// ask makes one call, after what the batch teaches, and returns its scores, which must
// be good.
func (c *conversation) ask(id uint64, batch *scorerv1.ScoreStreamRequest, req *scorerv1.ScoreRequest, n int) ([]opinion, error) {
	batch.Calls = []*scorerv1.StreamCall{c.call(id, req)}
	if err := c.say(batch); err != nil {
		return nil, err
	}
	got, err := c.hear(id)
	if err != nil {
		return nil, err
	}
	return read(got[id], n, len(req.GetRequest().GetPrefix().GetHashes()))
}

// read returns what a good answer says.
func read(a *scorerv1.StreamAnswer, n, blocks int) ([]opinion, error) {
	if e := a.GetError(); e != nil {
		return nil, fmt.Errorf("on the stream: %s", statusWords(e))
	}
	if err := wrongFor(a.GetResponse(), n, blocks, ""); err != nil {
		return nil, fmt.Errorf("on the stream: %w", err)
	}
	return opinions(a.GetResponse(), n), nil
}

// call allows for as long as the conversation may last.
func (c *conversation) call(id uint64, req *scorerv1.ScoreRequest) *scorerv1.StreamCall {
	return &scorerv1.StreamCall{CallId: id, TimeoutUs: uint32(c.s.options.Timeout.Microseconds()), Request: req} //nolint:gosec // seconds
}

func statusWords(e *scorerv1.Status) string {
	text := codes.Code(e.GetCode()).String() //nolint:gosec // unknown codes have a name too
	if e.GetReason() != "" {
		text += " (" + cut(e.GetReason()) + ")"
	}
	return text + ": " + cut(e.GetMessage())
}

// lesson is a table of endpoints, and requests about it.
type lesson struct {
	table *scorerv1.TaughtTable
	at    []int // fixture's number of the endpoint at each position
}

// teach is a table of n endpoints, sorted by id as tables are.
func (s *subject) teach(digest uint64, n int) lesson {
	l := lesson{table: &scorerv1.TaughtTable{TableDigest: digest}}
	for i := range n {
		l.at = append(l.at, i)
	}
	slices.SortFunc(l.at, func(a, b int) int { return strings.Compare(s.id(a), s.id(b)) })
	for _, i := range l.at {
		e := &scorerv1.TableEndpoint{EndpointId: s.id(i)}
		if s.asks(scorerv1.Input_INPUT_LABELS) {
			e.Labels = s.labels(i)
		}
		l.table.Endpoints = append(l.table.Endpoints, e)
	}
	return l
}

// byTable asks about the table, or positions of it.
func (s *subject) byTable(l lesson, positions ...uint32) *scorerv1.ScoreRequest {
	req := s.request(0)
	req.Candidates = &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: l.table.GetTableDigest(), Positions: positions}}
	return req
}

// listed asks about the same endpoints by listing them. Loads are those of the fixture,
// shifted, or none.
func (s *subject) listed(l lesson, loads bool, shift int, positions ...uint32) *scorerv1.ScoreRequest {
	if len(positions) == 0 {
		for p := range l.at {
			positions = append(positions, uint32(p)) //nolint:gosec // a position
		}
	}
	req := s.request(0)
	for _, p := range positions {
		c := s.candidate(l.at[p])
		c.Load, c.Adapters = nil, nil
		if loads {
			other := s.candidate(l.at[p] + shift)
			c.Load, c.Adapters = other.GetLoad(), other.GetAdapters()
		}
		req.GetListed().Candidates = append(req.GetListed().Candidates, c)
	}
	return req
}

// loads are those of the table, in columns.
func (s *subject) loads(l lesson, shift int) *scorerv1.TaughtLoads {
	m := &scorerv1.TaughtLoads{TableDigest: l.table.GetTableDigest()}
	for p, i := range l.at {
		if s.asks(scorerv1.Input_INPUT_LOAD) {
			m.AgeMs = append(m.AgeMs, 20)
			m.WaitingRequestCounts = append(m.WaitingRequestCounts, int32(waiting(i+shift))) //nolint:gosec // small
			m.RunningRequestCounts = append(m.RunningRequestCounts, int32(running(i+shift))) //nolint:gosec // small
			m.KvCacheUsageRatios = append(m.KvCacheUsageRatios, usage(i+shift))
		}
		if a := s.candidate(i + shift).GetAdapters(); a != nil {
			m.Adapters = append(m.Adapters, &scorerv1.PositionedAdapters{Position: uint32(p), Adapters: a}) //nolint:gosec // a position
		}
	}
	return m
}
