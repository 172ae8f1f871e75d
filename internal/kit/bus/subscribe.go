package bus

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
)

// Subscribe calls f for each message on the subject, one at a time. newM returns
// an empty message; f may keep what it is given. f must not block for long:
// while it runs, messages of the subject wait, and beyond the limits of [Config]
// they are lost. Messages that cannot be decoded, that lack a stamp or that come
// after a later one of their publisher are counted and not handed over. Must be
// called before the bus's part runs.
func Subscribe[M Stamped](b *Bus, s Subject, newM func() M, f func(m M, meta Meta)) {
	b.listen(&subscription[M]{
		bus: b, subject: s, newM: newM, f: f,
		received: bind(b.meters.received, s),
		gaps:     bind(b.meters.gaps, s),
		lost:     bind(b.meters.lost, s),
	})
}

type subscription[M Stamped] struct {
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

func (s *subscription[M]) open(nc *nats.Conn) error {
	s.mu.Lock()
	s.current = nc
	s.mu.Unlock()
	sub, err := nc.Subscribe(s.bus.subject(s.subject), func(m *nats.Msg) { s.handle(nc, m.Data) })
	if err != nil {
		return err
	}
	return sub.SetPendingLimits(s.bus.cfg.PendingMessages, s.bus.cfg.PendingBytes)
}

func (s *subscription[M]) handle(from *nats.Conn, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from != s.current {
		return
	}
	m := s.newM()
	if err := proto.Unmarshal(data, m); err != nil {
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
