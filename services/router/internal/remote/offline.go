package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/conf"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// Offline answers for scorer types and parameters as a Set does, by asking servers of
// the contract in this process. What it resolves cannot be asked for scores.
type Offline struct {
	ctx       context.Context
	services  []offlineService
	unchecked []string
}

type offlineService struct {
	server scorerv1.ScorerServiceServer
	info   *info
}

// checked is what Offline resolves: what an instance's parameters come to.
type checked struct{ told []byte }

// EffectiveParameters is that of [Instance].
func (c checked) EffectiveParameters() []byte { return c.told }

// NewOffline asks the servers what they serve. Types in unchecked, which nobody here
// serves, are taken to be served with any parameters. ctx is that of all later calls.
func NewOffline(ctx context.Context, servers []scorerv1.ScorerServiceServer, unchecked []string) (*Offline, error) {
	o := &Offline{ctx: ctx, unchecked: unchecked}
	for _, s := range servers {
		m, err := s.GetScorerInfo(ctx, &scorerv1.GetScorerInfoRequest{})
		if err != nil {
			return nil, fmt.Errorf("get scorer info: %w", err)
		}
		in, err := readInfo(m)
		if err != nil {
			return nil, fmt.Errorf("get scorer info: %w", err)
		}
		o.services = append(o.services, offlineService{s, in})
	}
	return o, nil
}

// Types returns every type that is served here or left unchecked, sorted.
func (o *Offline) Types() []string {
	all := slices.Clone(o.unchecked)
	for _, s := range o.services {
		all = append(all, s.info.types...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Resolve checks a plug-in as [Set.Resolve] does. What it
// resolves can only be asked what its parameters come to.
func (o *Offline) Resolve(plugin, typ string, parameters []byte) (service string, asked any, failClosed bool, warnings []string, err error) {
	for _, s := range o.services {
		if !s.info.serves(typ) {
			continue
		}
		m, err := s.server.ValidateParameters(o.ctx, &scorerv1.ValidateParametersRequest{ScorerType: typ, ParametersJson: parameters})
		if err != nil {
			return "", nil, false, nil, fmt.Errorf("validate parameters: %s", plain(err))
		}
		var faults []error
		for _, f := range m.GetFaults() {
			faults = append(faults, parameterFault{cut(f.GetKey()), cut(f.GetMessage())})
		}
		return s.info.name, checked{readTold(m)}, false, nil, errors.Join(faults...)
	}
	if slices.Contains(o.unchecked, typ) {
		return "(not checked)", checked{}, false, []string{fmt.Sprintf("whether somebody serves %q, and takes the parameters of %q, was not checked", typ, plugin)}, nil
	}
	text := fmt.Sprintf("no scorer serves type %q", typ)
	if near := conf.Nearest(typ, o.Types()); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return "", nil, false, nil, fmt.Errorf("%s; served: %s", text, strings.Join(o.Types(), ", "))
}
