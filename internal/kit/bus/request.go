package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
)

// Request asks the question and returns the first answer. The errors are
// [ErrOffline], [ErrNoResponders] (nobody serves the subject), [ErrTooLarge],
// the context's, and those of decoding. ctx should have a deadline: those who
// serve the subject may all stay silent.
func Request[Q, A proto.Message](ctx context.Context, b *Bus, s Subject, q Q, newA func() A) (A, error) {
	var none A
	nc, data, err := b.question(s, q)
	if err != nil {
		return none, err
	}
	reply, err := nc.RequestWithContext(ctx, b.subject(s), data)
	if err != nil {
		return none, fmt.Errorf("ask on %s: %w", b.subject(s), plainError(err))
	}
	return answer(b, s, reply, newA)
}

// RequestMany asks the question and returns the answers of all who give one,
// until ctx ends or quiet has passed since the last. It waits for the first
// answer until ctx ends, unless nobody serves the subject. No answer at all, and
// the end of ctx's time, are no errors; answers that cannot be decoded are
// counted and left out.
func RequestMany[Q, A proto.Message](ctx context.Context, b *Bus, s Subject, q Q, newA func() A, quiet time.Duration) ([]A, error) {
	nc, data, err := b.question(s, q)
	if err != nil {
		return nil, err
	}
	fail := func(err error) error { return fmt.Errorf("ask everybody on %s: %w", b.subject(s), plainError(err)) }
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fail(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest(b.subject(s), inbox, data); err != nil {
		return nil, fail(err)
	}
	var answers []A
	for {
		reply, err := next(ctx, sub, quiet, len(answers) > 0)
		switch {
		case err == nil:
			if a, err := answer(b, s, reply, newA); err == nil {
				answers = append(answers, a)
			}
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
			return answers, nil
		default:
			return answers, fail(err)
		}
	}
}

func next(ctx context.Context, sub *nats.Subscription, quiet time.Duration, some bool) (*nats.Msg, error) {
	if some {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, quiet)
		defer cancel()
	}
	return sub.NextMsgWithContext(ctx)
}

func (b *Bus) question(s Subject, q proto.Message) (*nats.Conn, []byte, error) {
	nc := b.conn.Load()
	if nc == nil {
		b.meters.fault(s, kindOffline)
		return nil, nil, fmt.Errorf("ask on %s: %w", b.subject(s), ErrOffline)
	}
	data, err := proto.Marshal(q)
	if err != nil {
		return nil, nil, fmt.Errorf("ask on %s: %w", b.subject(s), err)
	}
	return nc, data, nil
}

func answer[A proto.Message](b *Bus, s Subject, reply *nats.Msg, newA func() A) (A, error) {
	a := newA()
	if err := proto.Unmarshal(reply.Data, a); err != nil {
		var none A
		b.meters.fault(s, kindDecode)
		return none, fmt.Errorf("decode an answer on %s: %w", b.subject(s), err)
	}
	return a, nil
}
