package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

// resolveTimeout bounds asking the replicas about one plug-in's parameters. A replica
// that has let it pass is not waited for again until it has answered in the background.
const resolveTimeout = time.Second

// Types returns every scorer type that is known to be served, sorted. It waits, as
// long as Resolve does, for services that have not yet said what they serve.
func (s *Set) Types() []string {
	for {
		next, left := s.next()
		if left == 0 || !slices.ContainsFunc(s.services, (*service).mute) {
			return s.known()
		}
		select {
		case <-next:
		case <-time.After(left):
		}
	}
}

// mute says whether nothing is known of what a configured service serves.
func (s *service) mute() bool {
	reached, _ := s.reached()
	return !reached && s.builtin == nil && len(s.cfg.Types) == 0
}

func (s *Set) known() []string {
	var all []string
	for _, svc := range s.services {
		all = append(all, svc.types()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Resolve finds who answers for a scorer type and has the parameters of one plug-in
// checked there. It returns the service's name, what the fan-out asks, whether the
// service's silence fails requests, and what an operator should know.
//
// A type that nobody is known to serve is waited for as long as scorers may be
// starting (Config.ScorerWait, from the start of Part or the last call of Loading; not
// at all without Part). A
// service that cannot be reached has its parameters checked when it can: until then,
// and if they turn out to be wrong, calls are skipped, with that reason.
//
// Errors: nobody serves the type, two services do, or the parameters are wrong. Each
// is one line that names neither the plug-in nor its place; several are joined, and
// one about a parameter has a method ParameterKey.
func (s *Set) Resolve(plugin, typ string, parameters []byte) (service string, asked any, failClosed bool, warnings []string, err error) {
	svc, rivals, err := s.find(typ)
	if err != nil {
		return "", nil, false, nil, err
	}
	in := newInstance(svc, plugin, typ, slices.Clone(parameters))
	unchecked, err := s.check(in)
	if err != nil {
		return "", nil, false, nil, err
	}
	in.warned = slices.Concat(rivals, unchecked)
	for _, w := range in.warned {
		warnings = append(warnings, w.text)
	}
	return svc.cfg.Name, in, svc.cfg.FailurePolicy == Fail, warnings, nil
}

// warning is what an operator should know while it lasts.
type warning struct {
	text string
	over func(*Instance) bool
}

// Over says whether a warning that Resolve gave of the instance does not hold any more.
func (in *Instance) Over(text string) bool {
	i := slices.IndexFunc(in.warned, func(w warning) bool { return w.text == text })
	return i >= 0 && in.warned[i].over(in)
}

// mayServe says whether a service may serve a type, or does.
func (s *service) mayServe(typ string) bool {
	reached, _ := s.reached()
	return !reached || s.serves(typ) > 0
}

// find returns the service that answers for a type. It waits for services that have
// never been reached and might.
func (s *Set) find(typ string) (*service, []warning, error) {
	for {
		next, left := s.next()
		svc, open, err := s.claim(typ)
		switch {
		case err != nil:
			return nil, nil, err
		case svc != nil && len(open) == 0:
			s.want(svc)
			return svc, nil, nil
		case svc != nil && left == 0:
			s.want(svc)
			return svc, []warning{{
				fmt.Sprintf("%q is asked of %s; %s, which may serve it too, has not been reached: say types: [%s] for the one to use", typ, svc.cfg.Name, names(open), typ),
				func(*Instance) bool {
					return !slices.ContainsFunc(open, func(o *service) bool { return o.mayServe(typ) })
				},
			}}, nil
		case len(open) == 0 || left == 0:
			return nil, nil, s.unknown(typ, open)
		}
		select {
		case <-next:
		case <-time.After(left):
		}
	}
}

// claim returns the service that has the best claim to a type, and those that have
// not been reached and whose word might change that.
func (s *Set) claim(typ string) (best *service, open []*service, err error) {
	// Who was reached is looked at before what they serve: whoever is reached in
	// between counts as open, and all is looked at again.
	reached := make(map[*service]bool)
	for _, svc := range s.services {
		reached[svc], _ = svc.reached()
	}
	rank := 0
	var rivals []*service
	for _, svc := range s.services {
		switch r := svc.serves(typ); {
		case r > rank:
			best, rank, rivals = svc, r, []*service{svc}
		case r == rank && r > 0:
			rivals = append(rivals, svc)
		}
	}
	if rank == 3 {
		return best, nil, nil
	}
	if len(rivals) > 1 {
		return nil, nil, fmt.Errorf("scorer type %q is served by %s: say types: [%s] for the one to use", typ, names(rivals), typ)
	}
	for _, svc := range s.services {
		mayServe := svc.builtin == nil || rank == 0 && svc.configured
		if !reached[svc] && mayServe && len(svc.cfg.Types) == 0 {
			open = append(open, svc)
		}
	}
	return best, open, nil
}

// unknown says that nobody serves a type, and who might.
func (s *Set) unknown(typ string, open []*service) error {
	known := s.known()
	text := fmt.Sprintf("no scorer serves type %q", typ)
	if near := conf.Nearest(typ, known); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	text += "; served: " + strings.Join(known, ", ")
	if len(open) > 0 {
		words := make([]string, len(open))
		for i, svc := range open {
			words[i] = fmt.Sprintf("%s (%s: %s)", svc.cfg.Name, svc.cfg.Target, svc.why(nil))
		}
		text += "; not reached: " + strings.Join(words, ", ")
	}
	return errors.New(text)
}

// check has an instance's parameters checked by every replica that is connected, and
// by all later ones when they connect.
func (s *Set) check(in *Instance) (warnings []warning, err error) {
	svc := in.service
	for {
		next, left := s.next()
		if reached, settled := svc.reached(); reached || settled || left == 0 {
			break
		}
		select {
		case <-next:
		case <-time.After(left):
		}
	}
	sessions := svc.register(in)
	if len(sessions) == 0 {
		return []warning{{
			fmt.Sprintf("scorer %s at %s is %s: the parameters of %q are checked when it is reached", svc.cfg.Name, svc.cfg.Target, svc.why(nil), in.plugin),
			func(in *Instance) bool { return len(*in.bindings.Load()) > 0 },
		}}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	refused, faults := make([][]error, len(sessions)), make([]error, len(sessions))
	var asking sync.WaitGroup
	for i, ses := range sessions {
		if _, silent := ses.silent.Load(in.typ); silent {
			faults[i] = errSilent
			continue
		}
		asking.Go(func() { refused[i], faults[i] = ses.validate(ctx, in) })
	}
	asking.Wait()
	for i, ses := range sessions {
		if faults[i] != nil {
			warnings = append(warnings, warning{
				fmt.Sprintf("scorer %s: replica %s: %v: the parameters of %q are checked later", svc.cfg.Name, ses.replica.address, faults[i], in.plugin),
				func(in *Instance) bool { return in.bound(ses) || !svc.has(ses) },
			})
		}
		if len(refused[i]) > 0 {
			return nil, errors.Join(refused[i]...)
		}
	}
	return warnings, nil
}

// errSilent is what is told of a replica that was not asked, since it does not answer.
var errSilent = errors.New("validate parameters: it does not answer")

// has says whether a session is still on.
func (s *service) has(ses *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.sessions, ses)
}

func names(services []*service) string {
	all := make([]string, len(services))
	for i, s := range services {
		all[i] = s.cfg.Name
	}
	return strings.Join(all, ", ")
}
