package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// minLookup is the least time between two look-ups, however often replicas fail.
const minLookup = 500 * time.Millisecond

// service is one scorer service: its replicas and what is known of it.
type service struct {
	set      *Set
	cfg      ScorerConfig
	target   target
	client   rpc.ClientConfig
	embedded *Embedded // in this process; nil if it is elsewhere
	builtin  []string  // the types that are known without asking; nil for strangers
	tally    tally
	ids      atomic.Uint64 // of calls
	turn     atomic.Uint32 // spreads ties
	lookNow  chan struct{}

	configured bool // the operator names it
	wanted     bool // it is to be connected to; guarded by Set.mu

	mu        sync.Mutex
	replicas  map[string]*replica // by address
	sessions  []*session
	instances []weak.Pointer[Instance]
	info      *info // what was last heard
	looked    bool  // the first look-up is over
	lookFault string
	fault     string // the last failure, in words
	faultAt   time.Time
}

func newService(s *Set, cfg ScorerConfig, configured bool) (*service, error) {
	t, err := parseTarget(cfg.Target)
	if err != nil {
		return nil, fmt.Errorf("scorer %q: target: %w", cfg.Name, err)
	}
	var within *Embedded
	if t.embedded {
		e, there := s.deps.Embedded[cfg.Name]
		if !there {
			return nil, fmt.Errorf("scorer %q: target: embedded, but this program has no scorer of that name within it%s; say where it is, or run \"pointsman serve\", which has the built-in ones", cfg.Name, list(s.deps.Embedded))
		}
		within = &e
	}
	client := rpc.DefaultClientConfig()
	client.TLS = cfg.TLS
	if client.TLS.Enabled() && client.TLS.ServerName == "" {
		client.TLS.ServerName = t.serverName() // replicas are dialled by address
	}
	return &service{
		set: s, cfg: cfg, target: t, embedded: within, client: client, builtin: builtins()[cfg.Name],
		lookNow: make(chan struct{}, 1), wanted: configured, configured: configured, replicas: make(map[string]*replica),
	}, nil
}

// run keeps one replica per address of the target until ctx ends.
func (s *service) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		addresses, err := s.target.addresses(ctx, s.set.deps.Lookup)
		if ctx.Err() != nil {
			return
		}
		s.follow(ctx, &running, addresses, err)
		s.set.change()
		var again <-chan time.Time
		if !s.target.fixed() {
			again = time.After(s.set.cfg.ScorerLookup.D())
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(minLookup, s.set.cfg.ScorerLookup.D())):
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-s.lookNow:
		}
	}
}

// follow starts replicas that are new and drains those that are gone. When the name
// could not be looked up, those at work stay; when it is said not to exist, those
// that are not connected go.
func (s *service) follow(ctx context.Context, running *sync.WaitGroup, addresses []string, err error) {
	var dns *net.DNSError
	gone := err == nil || errors.As(err, &dns) && dns.IsNotFound
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked, s.lookFault = true, ""
	if err != nil {
		s.lookFault = err.Error()
		s.note(s.lookFault)
	}
	for address, r := range s.replicas {
		if gone && !slices.Contains(addresses, address) && (err == nil || !r.connected.Load()) {
			r.leave()
			delete(s.replicas, address)
		}
	}
	for _, address := range addresses {
		if _, known := s.replicas[address]; known {
			continue
		}
		r := newReplica(s, address)
		s.replicas[address] = r
		running.Go(func() { r.run(ctx) })
	}
}

// look asks for a look-up before its time: a replica was lost.
func (s *service) look() {
	select {
	case s.lookNow <- struct{}{}:
	default: // asked for already
	}
}

// serves says whether the type is asked of this service, and how surely: 3 by the
// operator's word, 2 by its own, 1 as a built-in. Built-in services give way.
func (s *service) serves(typ string) int {
	if len(s.cfg.Types) > 0 {
		if slices.Contains(s.cfg.Types, typ) {
			return 3
		}
		return 0
	}
	s.mu.Lock()
	in := s.info
	s.mu.Unlock()
	served := slices.Contains(s.builtin, typ)
	if in != nil {
		served = in.serves(typ)
	}
	switch {
	case !served:
		return 0
	case s.builtin != nil:
		return 1
	}
	return 2
}

// types returns the types that are asked of this service.
func (s *service) types() []string {
	if len(s.cfg.Types) > 0 {
		return s.cfg.Types
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info != nil {
		return s.info.types
	}
	return s.builtin
}

// reached says whether any replica ever told what it serves, and settled whether
// every replica was tried at least once.
func (s *service) reached() (reached, settled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	settled = s.looked
	for _, r := range s.replicas {
		settled = settled && r.tried.Load()
	}
	return s.info != nil, settled
}

// register has an instance validated on every connection from now on, for as long as
// somebody keeps it, and returns the connections that there are.
func (s *service) register(in *Instance) []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Every check of a text makes new ones. Those that are gone go before room is made.
	if len(s.instances) == cap(s.instances) {
		s.instances = slices.DeleteFunc(s.instances, func(w weak.Pointer[Instance]) bool { return w.Value() == nil })
	}
	s.instances = append(s.instances, weak.Make(in))
	return slices.Clone(s.sessions)
}

// enter makes a session known.
func (s *service) enter(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, ses)
	s.info = ses.info
}

// exit forgets a session.
func (s *service) exit(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = slices.DeleteFunc(s.sessions, func(o *session) bool { return o == ses })
}

// live returns the instances that somebody still keeps.
func (s *service) live() []*Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept()
}

// kept is live with mu held.
func (s *service) kept() []*Instance {
	var all []*Instance
	s.instances = slices.DeleteFunc(s.instances, func(w weak.Pointer[Instance]) bool {
		in := w.Value()
		if in != nil {
			all = append(all, in)
		}
		return in == nil
	})
	return all
}

// note remembers a failure in words. Call it with mu held.
func (s *service) note(fault string) { s.fault, s.faultAt = fault, time.Now() }

// failed remembers a failure in words.
func (s *service) failed(fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(fault)
}

// why says in words why nobody can be asked, for an instance, if it is not nil.
func (s *service) why(in *Instance) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.lookFault != "" && len(s.sessions) == 0:
		return "not reachable: " + s.lookFault
	case len(s.sessions) == 0 && s.fault != "":
		return "not reachable: " + s.fault
	case len(s.sessions) == 0:
		return "not connected yet"
	}
	for _, ses := range s.sessions {
		if !ses.ready.Load() {
			continue
		}
		if ses.replica.breaker.current() != closed {
			return "its breaker is open: " + s.fault
		}
		if in != nil && !in.bound(ses) {
			return "it has not answered about the parameters yet"
		}
	}
	return "no replica is ready"
}

// count counts what came of a call.
func (s *service) count(sc *route.Scores) {
	s.tally.verdicts[sc.Verdict].Add(1)
	if sc.Verdict != route.Skipped {
		s.set.metrics.callSeconds.Record(background, sc.Elapsed.Seconds(), s.tally.labels...)
	}
}
