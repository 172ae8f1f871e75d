package bus

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// Heard is a message as it is received: a [Stamped] one, or what reads the encoding of
// one by itself, by a method UnmarshalVT as generated code has it.
type Heard interface{ GetStamp() *statev1.Stamp }

// Subscribe calls f for each message on the subject, one at a time. newM returns
// an empty message, or one that replaces what it holds when it is decoded; f may keep
// what it is given if newM does not return it again. f must not block for long:
// while it runs, messages of the subject wait, and beyond the limits of [Config]
// they are lost. Subscriptions to one subject are called one after the other, in the
// order in which they were made. Messages that cannot be decoded, that lack a stamp or that come
// after a later one of their publisher are counted and not handed over. Must be
// called before the bus's part runs.
func Subscribe[M Heard](b *Bus, s Subject, newM func() M, f func(m M, meta Meta)) {
	in := &subscription[M]{
		bus: b, subject: s, newM: newM, f: f,
		received: bind(b.meters.received, s),
		gaps:     bind(b.meters.gaps, s),
		lost:     bind(b.meters.lost, s),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mustNotRun("Subscribe")
	if b.channels[s] == nil {
		b.channels[s] = &channel{bus: b, subject: s}
		b.inlets = append(b.inlets, b.channels[s])
	}
	b.channels[s].subscribers = append(b.channels[s].subscribers, in)
}

// channel is all subscriptions of a process to one subject: a message comes once.
type channel struct {
	bus         *Bus
	subject     Subject
	subscribers []subscriber
}

type subscriber interface {
	// connected says on which connection messages count from now on.
	connected(nc *nats.Conn)
	handle(from *nats.Conn, data []byte)
}

func (c *channel) open(nc *nats.Conn) error {
	for _, s := range c.subscribers {
		s.connected(nc)
	}
	sub, err := nc.Subscribe(c.bus.subject(c.subject), func(m *nats.Msg) {
		for _, s := range c.subscribers {
			s.handle(nc, m.Data)
		}
	})
	if err != nil {
		return err
	}
	return sub.SetPendingLimits(c.bus.cfg.PendingMessages, c.bus.cfg.PendingBytes)
}

type subscription[M Heard] struct {
	bus                  *Bus
	subject              Subject
	newM                 func() M
	f                    func(M, Meta)
	received, gaps, lost meter

	// mu keeps a message of a lost connection from being handled while the first
	// of the next one is.
	mu      sync.Mutex
	current *nats.Conn
	tracker tracker
}

func (s *subscription[M]) connected(nc *nats.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = nc
}

func (s *subscription[M]) handle(from *nats.Conn, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from != s.current {
		return
	}
	m := s.newM()
	if err := decode(s.subject, data, m); err != nil {
		s.bus.meters.fault(s.subject, kindDecode)
		return
	}
	s.received.add(1)
	stamp := m.GetStamp()
	if stamp.GetPublisherId() == "" || stamp.GetSequence() == 0 {
		s.bus.meters.fault(s.subject, kindStamp)
		return
	}
	meta, late := s.tracker.observe(stamp.GetPublisherId(), stamp.GetSequence(), time.Now())
	if late {
		s.bus.meters.fault(s.subject, kindLate)
		return
	}
	if meta.Gap > 0 {
		s.gaps.add(1)
		s.lost.add(meta.Gap)
	}
	s.f(m, meta)
}
