package conformance

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

func streamChecks() []Check {
	checks := []Check{
		{ID: "stream-equal", Title: "answers on the stream equal those of Score", Fix: "let both call the same code", run: checkStreamEqual},
		{ID: "stream-table", Title: "a table that was taught can be asked about, and parts of it", Fix: "keep taught tables by their digest; no positions mean all of the table", run: checkStreamTable},
		{ID: "stream-loads", Title: "the newest loads that were taught count", Fix: "let taught loads replace those of the same table; a negative figure is unknown", run: checkStreamLoads},
		{ID: "stream-tables-kept", Title: "the last 8 tables are kept", Fix: "keep 8 tables per stream, forget the one taught first", run: checkTablesKept},
		{ID: "stream-unknown-table", Title: "a table that was not taught is TABLE_NOT_HELD for that call", Fix: "answer the call with code 9 and reason TABLE_NOT_HELD and go on", run: checkStreamUnknownTable},
		{ID: "stream-ids", Title: "each call is answered once, by its id", Fix: "answer every call of a batch once under its call_id, in any order", run: checkStreamIDs},
		{ID: "stream-errors", Title: "a call that fails is its own affair", Fix: "put the error into the call's answer, and go on with the stream", run: checkStreamErrors},
		{ID: "stream-timeouts", Title: "a call whose time is over does not hold up others", Fix: "answer it with DEADLINE_EXCEEDED or late, and go on", run: checkStreamTimeouts},
		{ID: "stream-cancelled", Title: "cancellations do no harm", Fix: "ignore cancellations of calls that are answered or never were", run: checkStreamCancelled},
		{ID: "stream-end", Title: "the stream ends when the router ends it", Fix: "return when the router has closed its side", run: checkStreamEnd},
	}
	for i := range checks {
		checks[i].Level = Must
		checks[i].run = withCapability(scorerv1.Capability_CAPABILITY_STREAM, checks[i].run)
	}
	return checks
}

// talk runs f on a stream of its own, a few times at most until it is content.
func (s *subject) talk(ctx context.Context, f func(c *conversation) error) error {
	return steadily(ctx, func() error {
		c, err := s.converse(ctx)
		if err != nil {
			return broken("ScoreStream: %s", words(err))
		}
		defer c.hangUp()
		return f(c)
	})
}

func checkStreamEqual(ctx context.Context, s *subject) error {
	return s.talk(ctx, func(c *conversation) error {
		req := s.request(7)
		unary, err := s.opinions(ctx, req)
		if err != nil {
			return err
		}
		streamed, err := c.ask(1, &scorerv1.ScoreStreamRequest{}, req, 7)
		if err != nil {
			return err
		}
		return differ(unary, streamed, same)
	})
}

// taughtLoads says whether loads come on the stream, and not by the broadcast.
func (s *subject) taughtLoads() bool {
	return (s.asks(scorerv1.Input_INPUT_LOAD) || s.asks(scorerv1.Input_INPUT_ADAPTERS)) && !s.has(scorerv1.Capability_CAPABILITY_FOLLOWS_BROADCAST)
}

func checkStreamTable(ctx context.Context, s *subject) error {
	return s.talk(ctx, func(c *conversation) error {
		l := s.teach(11, 9)
		batch := &scorerv1.ScoreStreamRequest{Tables: []*scorerv1.TaughtTable{l.table}}
		if s.taughtLoads() {
			batch.Loads = []*scorerv1.TaughtLoads{s.loads(l, 0)}
		}
		for i, positions := range [][]uint32{nil, {0}, {2, 3, 8}} {
			want, err := s.opinions(ctx, s.listed(l, s.taughtLoads(), 0, positions...))
			if err != nil {
				return err
			}
			got, err := c.ask(uint64(i)+1, batch, s.byTable(l, positions...), len(want)) //nolint:gosec // an index
			if err != nil {
				return err
			}
			if err := differ(want, got, same); err != nil {
				return broken("listed and by positions %v of a taught table: %w", positions, err)
			}
			batch = &scorerv1.ScoreStreamRequest{}
		}
		return nil
	})
}

func checkStreamLoads(ctx context.Context, s *subject) error {
	if !s.taughtLoads() {
		return notApplicable("it takes no loads from the stream")
	}
	return s.talk(ctx, func(c *conversation) error {
		l := s.teach(12, 6)
		batch := &scorerv1.ScoreStreamRequest{Tables: []*scorerv1.TaughtTable{l.table}}
		for i, shift := range []int{-1, 0, 4} {
			if shift >= 0 {
				batch = &scorerv1.ScoreStreamRequest{Loads: []*scorerv1.TaughtLoads{s.loads(l, shift)}}
			}
			want, err := s.opinions(ctx, s.listed(l, shift >= 0, max(shift, 0)))
			if err != nil {
				return err
			}
			got, err := c.ask(uint64(i)+1, batch, s.byTable(l), 6) //nolint:gosec // an index
			if err != nil {
				return err
			}
			if err := differ(want, got, same); err != nil {
				return broken("after loads were taught %d times: %w", i, err)
			}
		}
		return nil
	})
}

func checkTablesKept(ctx context.Context, s *subject) error {
	return s.talk(ctx, func(c *conversation) error {
		batch := &scorerv1.ScoreStreamRequest{}
		var first lesson
		for i := range heldTables {
			l := s.teach(uint64(100+i), 3+i) //nolint:gosec // small
			if i == 0 {
				first = l
			}
			batch.Tables = append(batch.Tables, l.table)
		}
		if _, err := c.ask(1, batch, s.byTable(first), 3); err != nil {
			return broken("asked about the first of 8 tables: %w", err)
		}
		return nil
	})
}

func checkStreamUnknownTable(ctx context.Context, s *subject) error {
	return s.talk(ctx, func(c *conversation) error {
		unknown := s.byTable(lesson{table: &scorerv1.TaughtTable{TableDigest: 0xfeedfacecafebeef}})
		if err := c.say(&scorerv1.ScoreStreamRequest{Calls: []*scorerv1.StreamCall{c.call(1, unknown), c.call(2, s.request(2))}}); err != nil {
			return err
		}
		got, err := c.hear(1, 2)
		if err != nil {
			return err
		}
		e := got[1].GetError()
		if e == nil {
			return broken("a table that was never taught is answered with scores")
		}
		if codes.Code(e.GetCode()) != codes.FailedPrecondition || e.GetReason() != "TABLE_NOT_HELD" { //nolint:gosec // unknown codes are none
			return broken("a table that was never taught: %s, want FailedPrecondition (TABLE_NOT_HELD)", statusWords(e))
		}
		_, err = read(got[2], 2, len(s.inference().GetPrefix().GetHashes()))
		return err
	})
}

func checkStreamIDs(ctx context.Context, s *subject) error {
	return s.talk(ctx, func(c *conversation) error {
		batch := &scorerv1.ScoreStreamRequest{}
		var ids []uint64
		want := make(map[uint64][]opinion)
		for i := range 64 {
			id, n := uint64(1000-7*i), 1+i%5 //nolint:gosec // positive
			req := s.request(n)
			if i < 5 {
				alone, err := s.opinions(ctx, req)
				if err != nil {
					return err
				}
				want[uint64(n)] = alone //nolint:gosec // small
			}
			ids = append(ids, id)
			batch.Calls = append(batch.Calls, c.call(id, req))
		}
		if err := c.say(batch); err != nil {
			return err
		}
		got, err := c.hear(ids...)
		if err != nil {
			return err
		}
		for i, id := range ids {
			n := 1 + i%5
			streamed, err := read(got[id], n, len(batch.Calls[i].GetRequest().GetRequest().GetPrefix().GetHashes()))
			if err != nil {
				return fmt.Errorf("call %d: %w", id, err)
			}
			if err := differ(want[uint64(n)], streamed, same); err != nil { //nolint:gosec // small
				return fmt.Errorf("call %d: %w", id, err)
			}
		}
		return nil
	})
}

func checkStreamErrors(ctx context.Context, s *subject) error {
	return s.talk(ctx, func(c *conversation) error {
		bad := s.request(2)
		bad.ScorerType = noType
		if err := c.say(&scorerv1.ScoreStreamRequest{Calls: []*scorerv1.StreamCall{c.call(1, s.request(2)), c.call(2, bad), c.call(3, s.request(2))}}); err != nil {
			return err
		}
		got, err := c.hear(1, 2, 3)
		if err != nil {
			return err
		}
		blocks := len(s.inference().GetPrefix().GetHashes())
		for _, id := range []uint64{1, 3} {
			if _, err := read(got[id], 2, blocks); err != nil {
				return err
			}
		}
		if e := got[2].GetError(); e == nil || codes.Code(e.GetCode()) != codes.InvalidArgument { //nolint:gosec // unknown codes are none
			return broken("a call of an unknown type in between: %s, want InvalidArgument", statusWords(e))
		}
		_, err = c.ask(4, &scorerv1.ScoreStreamRequest{}, s.request(2), 2)
		return err
	})
}

func checkStreamTimeouts(ctx context.Context, s *subject) error {
	return s.talk(ctx, func(c *conversation) error {
		late := c.call(2, s.request(64))
		late.TimeoutUs = 1
		err := c.say(&scorerv1.ScoreStreamRequest{Calls: []*scorerv1.StreamCall{c.call(1, s.request(64)), late, c.call(3, s.request(64))}})
		if err != nil {
			return err
		}
		blocks := len(s.inference().GetPrefix().GetHashes())
		// The late call may be answered or not; the others must be.
		for open := 2; open > 0; {
			m, err := c.stream.Recv()
			if err != nil {
				return broke(err, "in a batch with a call whose time was over")
			}
			for _, a := range m.GetAnswers() {
				late := a.GetCallId() == 2
				if code := codes.Code(a.GetError().GetCode()); late && code == codes.DeadlineExceeded { //nolint:gosec // unknown codes are none
					continue
				}
				if _, err := read(a, 64, blocks); err != nil {
					return broken("call %d, of which the time of call 2 was over: %w", a.GetCallId(), err)
				}
				if !late {
					open--
				}
			}
		}
		return nil
	})
}

func checkStreamCancelled(ctx context.Context, s *subject) error {
	return s.talk(ctx, func(c *conversation) error {
		if _, err := c.ask(1, &scorerv1.ScoreStreamRequest{}, s.request(2), 2); err != nil {
			return err
		}
		if err := c.say(&scorerv1.ScoreStreamRequest{CancelledCallIds: []uint64{1, 77}}); err != nil {
			return err
		}
		if _, err := c.ask(2, &scorerv1.ScoreStreamRequest{}, s.request(2), 2); err != nil {
			return broken("after cancellations: %w", err)
		}
		return nil
	})
}

func checkStreamEnd(ctx context.Context, s *subject) error {
	return s.talk(ctx, func(c *conversation) error {
		if _, err := c.ask(1, &scorerv1.ScoreStreamRequest{}, s.request(2), 2); err != nil {
			return err
		}
		if err := c.end(); err != nil {
			return broke(err, "which was to end in peace")
		}
		return nil
	})
}
