package allow

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// hold is how long a collector's table counts after its last broadcast: five of its 2 s
// periods.
const hold = 10 * time.Second

// Target is an address in one spelling.
type Target struct {
	host string
	port uint16
}

// Parse reads "host:port", IPv6 in brackets. False for anything else: a scheme, a path, a
// user, a zone, a port that is none.
func Parse(address string) (Target, bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.ContainsAny(host, "/?#@%\\ \t") {
		return Target{}, false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return Target{}, false
	}
	return Target{spell(host), uint16(n)}, true
}

// spell returns the one spelling of a host.
func spell(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// Host returns the host.
func (t Target) Host() string { return t.host }

// String returns the address as one dials it.
func (t Target) String() string { return net.JoinHostPort(t.host, strconv.Itoa(int(t.port))) }

// List is the addresses that may be called. Safe for concurrent use.
type List struct {
	always  map[Target]bool
	targets atomic.Pointer[map[Target]bool]

	mu   sync.Mutex
	said map[string]saying // by collector
}

// saying is a collector's last table.
type saying struct {
	digest  uint64
	targets []Target
	heard   time.Time
}

// NewList returns a List on which always are, whatever is broadcast.
func NewList(always []Target) *List {
	l := &List{always: make(map[Target]bool), said: make(map[string]saying)}
	for _, t := range always {
		l.always[t] = true
	}
	return l
}

// Allows is true for an address that may be called.
func (l *List) Allows(t Target) bool {
	if l.always[t] {
		return true
	}
	of := l.targets.Load()
	return of != nil && (*of)[t]
}

// Heard is true once a table was heard.
func (l *List) Heard() bool { return l.targets.Load() != nil }

// Hear takes a collector's table.
func (l *List) Hear(collector string, t *roster.Table, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	said, known := l.said[collector]
	said.heard = at
	changed := !known || said.digest != t.Digest || len(said.targets) != t.Len()
	said.digest, said.targets = t.Digest, targetsOf(t) // addresses may change without the digest
	l.said[collector] = said
	for name, s := range l.said {
		if at.Sub(s.heard) > hold {
			delete(l.said, name)
			changed = true
		}
	}
	if !changed && l.same(said.targets) {
		return
	}
	all := make(map[Target]bool)
	for _, s := range l.said {
		for _, t := range s.targets {
			all[t] = true
		}
	}
	l.targets.Store(&all)
}

// same is true if all of them are on the list already.
func (l *List) same(targets []Target) bool {
	of := l.targets.Load()
	if of == nil {
		return false
	}
	for _, t := range targets {
		if !(*of)[t] {
			return false
		}
	}
	return len(l.said) > 1 || len(*of) == len(targets)
}

func targetsOf(t *roster.Table) []Target {
	out := make([]Target, 0, t.Len())
	for i := range t.Endpoints {
		e := &t.Endpoints[i]
		out = append(out, Target{spell(e.Host), e.Port})
	}
	return out
}
