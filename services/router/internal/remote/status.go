package remote

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// breakerState is the state of the service as a whole: that of its best replica.
func (s *service) breakerState() breakerState {
	s.mu.Lock()
	defer s.mu.Unlock()
	best := open
	if len(s.replicas) == 0 {
		best = closed
	}
	for _, r := range s.replicas {
		best = min(best, r.breaker.current())
	}
	return best
}

// replicaStates counts the replicas by state: ready, not_ready (connected, and yet no
// calls go to it), broken (its breaker is not closed), unreachable.
func (s *service) replicaStates() map[string]int {
	n := map[string]int{"ready": 0, "not_ready": 0, "broken": 0, "unreachable": 0}
	s.mu.Lock()
	defer s.mu.Unlock()
	ready, _ := s.readyReplicas()
	for _, r := range s.replicas {
		switch {
		case !r.connected.Load():
			n["unreachable"]++
		case r.breaker.current() != closed:
			n["broken"]++
		case !ready[r]:
			n["not_ready"]++
		default:
			n["ready"]++
		}
	}
	return n
}

// readyReplicas returns those that calls go to, and why else they do not, or not all, if
// it is for want of an answer about parameters. Call it with mu held.
func (s *service) readyReplicas() (ready map[*replica]bool, waits map[*replica]string) {
	ready, waits = make(map[*replica]bool, len(s.sessions)), make(map[*replica]string)
	all := s.kept()
	for _, ses := range s.sessions {
		plugins, asked := ses.unanswered(all)
		if len(plugins) > 0 {
			waits[ses.replica] = "it has not answered about the parameters of " + strings.Join(plugins, ", ")
		}
		if ses.ready.Load() && (asked || len(plugins) == 0) {
			ready[ses.replica] = true
		}
	}
	return ready, waits
}

// status shows the service to people.
func (s *service) status() *routerv1.ScorerStatus {
	m := &routerv1.ScorerStatus{
		Name: s.cfg.Name, Target: s.cfg.Target, ScorerTypes: s.types(), Breaker: s.breakerState().String(),
	}
	for v := route.Scored; v <= route.Skipped; v++ {
		n := s.tally.verdicts[v].Load()
		m.CallCount += n
		if v == route.TimedOut || v == route.Failed {
			m.FailureCount += n
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info != nil {
		m.ReportedName, m.Version = s.info.name, s.info.version
	}
	if s.fault != "" {
		m.LastError, m.LastErrorAge = s.fault, durationpb.New(time.Since(s.faultAt))
	}
	for _, ses := range s.sessions {
		if m.Transport != string(Stream) { // streams are what most calls go by
			m.Transport = string(ses.transport())
		}
	}
	ready, waits := s.readyReplicas()
	for _, r := range s.replicas {
		m.Replicas = append(m.Replicas, r.status(ready[r], waits[r]))
	}
	slices.SortFunc(m.Replicas, func(a, b *routerv1.ScorerReplica) int { return cmp.Compare(a.Address, b.Address) })
	return m
}

func (r *replica) status(ready bool, waits string) *routerv1.ScorerReplica {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &routerv1.ScorerReplica{Address: r.address, Ready: ready, Reason: r.reason}
	switch state := r.breaker.current(); {
	case ready && state != closed:
		m.Ready, m.Reason = false, "its breaker is "+state.String()
	case m.Reason == "" && waits != "":
		m.Reason = waits
	case !ready && m.Reason == "":
		m.Reason = "connected, and not yet known to be healthy"
	}
	return m
}
