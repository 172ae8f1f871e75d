package bus

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// mostKeptBuffer is the largest encoding buffer that is kept for the next message.
const mostKeptBuffer = 1 << 20

// Stamped is a broadcast message.
type Stamped interface {
	proto.Message
	GetStamp() *statev1.Stamp
}

// Publisher sends one kind of message. Its methods may be called from any
// goroutine.
type Publisher[M Stamped] struct {
	bus      *Bus
	out      *outlet
	setStamp func(M, *statev1.Stamp)
}

// outlet is what all publishers of one subject of a process share.
type outlet struct {
	subject Subject
	full    string
	count   meter

	// mu keeps the order on the wire that of the sequences.
	mu       sync.Mutex
	sequence atomic.Uint64
	buffer   []byte
}

// NewPublisher returns a publisher on the subject. setStamp sets the message's
// stamp. Publishers of the same subject on the same bus share one sequence.
func NewPublisher[M Stamped](b *Bus, s Subject, setStamp func(M, *statev1.Stamp)) *Publisher[M] {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.outlets[s]
	if out == nil {
		out = &outlet{subject: s, full: b.subject(s), count: bind(b.meters.published, s)}
		b.outlets[s] = out
	}
	return &Publisher[M]{b, out, setStamp}
}

// Publish stamps m and sends it. The errors are [ErrOffline], [ErrTooLarge] and
// those of NATS; nothing is sent then or later, but the sequence is used up, so
// that receivers learn that something is missing. Errors are counted here.
func (p *Publisher[M]) Publish(m M) error {
	o := p.out
	o.mu.Lock()
	defer o.mu.Unlock()
	p.setStamp(m, &statev1.Stamp{
		PublisherId: p.bus.id,
		Sequence:    o.sequence.Add(1),
		PublishTime: timestamppb.Now(),
	})
	nc := p.bus.conn.Load()
	if nc == nil {
		return p.bus.refused(o.subject, ErrOffline)
	}
	data, err := encode(o.subject, o.buffer[:0], m)
	if err != nil {
		return p.bus.refused(o.subject, err)
	}
	if cap(data) <= mostKeptBuffer {
		o.buffer = data
	}
	if err := p.bus.send(nc, &nats.Msg{Subject: o.full, Data: data}); err != nil {
		return p.bus.refused(o.subject, err)
	}
	o.count.add(1)
	return nil
}

// Sequence returns the sequence of the last message, sent or not; 0 before the
// first.
func (p *Publisher[M]) Sequence() uint64 { return p.out.sequence.Load() }

// send hands a message to the connection, which copies it.
func (b *Bus) send(nc *nats.Conn, m *nats.Msg) error {
	if limit := nc.MaxPayload(); int64(len(m.Data)) > limit && nc.IsConnected() {
		return fmt.Errorf("%w: %d bytes, at most %d (max_payload)", ErrTooLarge, len(m.Data), limit)
	}
	return plainError(nc.PublishMsg(m))
}

// refused counts a message that was not sent.
func (b *Bus) refused(s Subject, err error) error {
	b.meters.fault(s, kindOf(err))
	return fmt.Errorf("publish on %s: %w", b.subject(s), err)
}

// unanswered counts an answer that could not be sent, and tells people, since
// nobody else will.
func (b *Bus) unanswered(s Subject, err error) {
	b.meters.fault(s, kindOf(err))
	if b.notes.due("answer"+string(s), kindOf(err), time.Now()) {
		b.log.Warn("an answer was not sent", "subject", string(s), "error", err)
	}
}
