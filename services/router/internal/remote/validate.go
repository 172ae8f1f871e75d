package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// checkPause is the time after which a replica is asked again about an instance, if
// it did not answer.
const checkPause = time.Second

// parameterFault is one thing that a scorer finds wrong with parameters.
type parameterFault struct{ key, message string }

// ParameterKey is the key at fault, dotted if nested; empty for all of them.
func (f parameterFault) ParameterKey() string { return f.key }

func (f parameterFault) Error() string { return f.message }

// keepChecking binds the instances that are not bound yet, until ctx ends.
func (s *session) keepChecking(ctx context.Context) {
	again := time.NewTicker(checkPause)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			s.checkInstances(ctx)
		}
	}
}

// checkInstances validates the instances in use that this replica has not answered about
// yet, all at once: one that it never answers about holds up no other.
func (s *session) checkInstances(ctx context.Context) {
	var asking sync.WaitGroup
	for _, in := range s.replica.service.live() {
		if !in.bound(s) {
			asking.Go(func() { s.checkInstance(ctx, in) })
		}
	}
	asking.Wait()
}

// checkInstance validates one. A fault is told and counted, and the instance is not asked
// here.
func (s *session) checkInstance(ctx context.Context, in *Instance) {
	svc := s.replica.service
	refused, err := s.validate(ctx, in)
	switch {
	case err != nil:
		svc.failed(fmt.Sprintf("%s: plug-in %q: %v", s.replica.address, in.plugin, err))
	case len(refused) > 0:
		reason := words(refused)
		svc.tally.refused.Add(1)
		svc.failed(reason)
		svc.set.tel.Log.Error("scorer refuses a plug-in in use", "scorer", svc.cfg.Name, "replica", s.replica.address,
			"plugin", in.plugin, "type", in.typ, "reason", reason)
	}
}

// unanswered returns the plug-ins whose parameters the replica was asked about and has not
// answered, and whether there is another one that is asked for scores here.
func (s *session) unanswered(all []*Instance) (plugins []string, asked bool) {
	for _, in := range all {
		b, bound := in.on(s)
		if !bound {
			plugins = append(plugins, strconv.Quote(in.plugin))
		}
		asked = asked || bound && b.refused == ""
	}
	slices.Sort(plugins)
	return slices.Compact(plugins), asked
}

// validate asks the replica about an instance's parameters and binds the instance,
// with why it is refused, if it is. An error means that there was no answer.
func (s *session) validate(ctx context.Context, in *Instance) (refused []error, err error) {
	b := binding{session: s}
	b.needs, refused, err = s.judge(ctx, in)
	if err != nil {
		return nil, err
	}
	if b.needs != nil {
		s.want(b.needs)
	} else {
		b.refused = words(refused)
	}
	in.bind(b)
	return refused, nil
}

func (s *session) judge(ctx context.Context, in *Instance) (n *needs, refused []error, err error) {
	if !s.info.serves(in.typ) {
		return nil, []error{fmt.Errorf("%s %s does not serve %q but %s", s.info.name, s.info.version, in.typ, strings.Join(s.info.types, ", "))}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	m, err := s.client.ValidateParameters(ctx, &scorerv1.ValidateParametersRequest{ScorerType: in.typ, ParametersJson: in.parameters}, grpc.MaxCallRecvMsgSize(maxInfoBytes))
	code := status.Code(err)
	if code == codes.DeadlineExceeded {
		s.silent.Store(in.typ, true)
	} else {
		s.silent.Delete(in.typ)
	}
	switch {
	case code == codes.Unimplemented || code == codes.InvalidArgument:
		return nil, []error{errors.New("validate parameters: " + plain(err))}, nil
	case err != nil:
		return nil, nil, errors.New("validate parameters: " + plain(err))
	}
	for _, f := range m.GetFaults() {
		refused = append(refused, parameterFault{cut(f.GetKey()), cut(f.GetMessage())})
	}
	if len(refused) > 0 {
		return nil, refused, nil
	}
	n, err = readNeeds(m.GetNeeds(), s.replica.service.cfg.PromptText)
	if err != nil {
		return nil, []error{err}, nil
	}
	n.told = readTold(m)
	return n, nil, nil
}

// words writes faults as one line, each after its key.
func words(faults []error) string {
	all := make([]string, len(faults))
	for i, f := range faults {
		all[i] = f.Error()
		var p parameterFault
		if errors.As(f, &p) && p.key != "" {
			all[i] = p.key + ": " + p.message
		}
	}
	return strings.Join(all, "; ")
}
