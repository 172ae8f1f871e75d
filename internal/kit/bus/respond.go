package bus

import (
	"sync"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
)

// Respond answers questions on the subject, as everybody does who calls it; the
// asker gets all answers or the first. f returns nil to stay silent; its calls
// do not overlap. Must be called before the bus's part runs.
func Respond[Q, A proto.Message](b *Bus, s Subject, newQ func() Q, f func(Q) A) {
	b.listen(&responder[Q, A]{
		bus: b, subject: s, newQ: newQ, f: f,
		received:  bind(b.meters.received, s),
		published: bind(b.meters.published, s),
	})
}

type responder[Q, A proto.Message] struct {
	bus                 *Bus
	subject             Subject
	newQ                func() Q
	f                   func(Q) A
	received, published meter

	mu sync.Mutex // f is not called by two connections at once
}

func (r *responder[Q, A]) open(nc *nats.Conn) error {
	_, err := nc.Subscribe(r.bus.subject(r.subject), func(m *nats.Msg) { r.handle(nc, m) })
	return err
}

func (r *responder[Q, A]) handle(nc *nats.Conn, m *nats.Msg) {
	q := r.newQ()
	if err := proto.Unmarshal(m.Data, q); err != nil {
		r.bus.meters.fault(r.subject, kindDecode)
		return
	}
	r.received.add(1)
	if m.Reply == "" {
		return // a statement, not a question
	}
	r.mu.Lock()
	a := r.f(q)
	r.mu.Unlock()
	if any(a) == nil || !a.ProtoReflect().IsValid() {
		return
	}
	data, err := proto.Marshal(a)
	if err == nil {
		err = r.bus.send(nc, &nats.Msg{Subject: m.Reply, Data: data})
	}
	if err != nil {
		r.bus.unanswered(r.subject, err)
		return
	}
	r.published.add(1)
}
