package remote

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/fanout"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Instance is one scorer instance of a configuration: a type with parameters, asked
// of one service.
type Instance struct {
	service    *service
	plugin     string
	typ        string
	parameters []byte

	warned []warning // by Resolve

	mu       sync.Mutex // one writer at a time
	bindings atomic.Pointer[[]binding]
	asks     atomic.Pointer[needs] // what was last asked for, also when nobody is connected
}

// binding is an instance on one session: what it needs there, or why it is refused.
type binding struct {
	session *session
	needs   *needs
	refused string
}

var (
	_ fanout.Instance     = (*Instance)(nil)
	_ route.SessionIssuer = (*Instance)(nil)
)

func newInstance(s *service, plugin, typ string, parameters []byte) *Instance {
	in := &Instance{service: s, plugin: plugin, typ: typ, parameters: parameters}
	in.bindings.Store(&[]binding{})
	return in
}

// Timeout is the operator's limit for one call; zero for none.
func (in *Instance) Timeout() time.Duration { return in.service.cfg.Timeout.D() }

// PrefixNeeds returns the bytes in a prefix block over a table's endpoints and the most
// blocks looked at, as the scorer last asked for; zero if it looks at none.
func (in *Instance) PrefixNeeds(t *roster.Table) (blockSize, limit int) {
	n := in.asks.Load()
	if n == nil || !n.Prefix {
		return 0, 0
	}
	return route.BlockSize(t, n.BlockSize, n.FollowsCache), n.BlockLimit
}

// SessionHeader returns the response header in which clients are given a token for the
// endpoint that answered, as the scorer last asked for; empty for none.
func (in *Instance) SessionHeader() string {
	if n := in.asks.Load(); n != nil {
		return n.sessionHeader
	}
	return ""
}

// EffectiveParameters returns what the instance's parameters come to, defaults filled in,
// as the scorer last said: a JSON object. Nil if it was not reached or does not tell.
func (in *Instance) EffectiveParameters() []byte {
	if n := in.asks.Load(); n != nil {
		return n.told
	}
	return nil
}

// Start asks the replica with the fewest calls open.
func (in *Instance) Start(call *fanout.Call) {
	f, ok := call.Own.(*flight)
	if !ok {
		f = newFlight(call)
	}
	f.begin(in, in.service.ids.Add(1))
	call.Hold()
	if !f.depart(nil, true) {
		call.Release()
	}
}

// End counts what came of a call and stops work that nobody waits for.
func (in *Instance) End(call *fanout.Call, s *route.Scores, e fanout.Ending) {
	if e == fanout.GivenUp {
		in.service.tally.cancelled.Add(1)
	} else {
		in.service.count(s)
	}
	if f, ok := call.Own.(*flight); ok && e != fanout.Answered {
		f.abandon(e == fanout.Late)
	}
}

// bind sets what an instance has on a session.
func (in *Instance) bind(b binding) {
	in.mu.Lock()
	defer in.mu.Unlock()
	next := in.without(b.session)
	next = append(next, b)
	in.bindings.Store(&next)
	if b.needs != nil {
		in.asks.Store(b.needs)
	}
}

// on returns what the instance has on a session, and false if that is not known yet.
func (in *Instance) on(s *session) (binding, bool) {
	for _, b := range *in.bindings.Load() {
		if b.session == s {
			return b, true
		}
	}
	return binding{}, false
}

// bound says whether a session's word on the instance is known.
func (in *Instance) bound(s *session) bool {
	_, bound := in.on(s)
	return bound
}

// unbind forgets a session.
func (in *Instance) unbind(s *session) {
	in.mu.Lock()
	defer in.mu.Unlock()
	next := in.without(s)
	in.bindings.Store(&next)
}

func (in *Instance) without(s *session) []binding {
	var next []binding
	for _, b := range *in.bindings.Load() {
		if b.session != s {
			next = append(next, b)
		}
	}
	return next
}

// choose returns where call id goes: to a replica that is due for a probe, else to
// that with the fewest open calls; nil if nobody can be asked. Not to the session not.
func (in *Instance) choose(id uint64, not *session) *binding {
	all := *in.bindings.Load()
	var best *binding
	fewest := int64(math.MaxInt64)
	first := int(in.service.turn.Add(1))
	for i := range all {
		b := &all[(first+i)%len(all)]
		s := b.session
		if s == not || b.refused != "" || !s.ready.Load() {
			continue
		}
		if r := s.replica; r.breaker.current() != closed {
			if r.breaker.admit(id, time.Now()) {
				return b
			}
			continue
		}
		if n := s.replica.open.Load(); n < fewest {
			best, fewest = b, n
		}
	}
	return best
}

// why says in words why nobody can be asked.
func (in *Instance) why() string {
	for _, b := range *in.bindings.Load() {
		if b.refused != "" {
			return "refused: " + b.refused
		}
	}
	return in.service.why(in)
}

// others says whether a replica other than that of not is ready.
func (in *Instance) others(not *session) bool {
	for _, b := range *in.bindings.Load() {
		if b.session.replica != not.replica && b.refused == "" && b.session.ready.Load() {
			return true
		}
	}
	return false
}
