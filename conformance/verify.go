package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// subject is what is checked: a service, or one of its types.
type subject struct {
	options Options
	client  scorerv1.ScorerServiceClient
	health  grpc_health_v1.HealthClient
	info    *scorerv1.GetScorerInfoResponse

	typ    *scorerv1.ScorerType
	needs  *scorerv1.InputNeeds
	refuse error  // why the type cannot be asked for scores
	faulty string // the rule that answers by themselves break

	answers []sample          // to be held against the rules; nil: not asked yet
	rated   *atomic.Bool      // somebody was rated in the check at hand
	silent  map[string]string // by group, the check in which it gave no answer
}

// Verify runs all checks. An error means that there is nothing to report: the options
// are wrong, the scorer cannot be reached, it does not serve the type, or ctx ended.
func Verify(ctx context.Context, conn grpc.ClientConnInterface, o Options) (Report, error) {
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	s := &subject{options: o, client: scorerv1.NewScorerServiceClient(conn), health: grpc_health_v1.NewHealthClient(conn), silent: make(map[string]string)}
	info, err := s.getInfo(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("get scorer info: %s", words(err))
	}
	s.info = info
	report := Report{Name: info.GetName(), Version: info.GetVersion()}
	types, err := chosen(info, o.Type)
	if err != nil {
		return Report{}, err
	}
	for _, c := range Checks() {
		if !c.perType && o.wants(c) {
			report.Results = append(report.Results, s.result(ctx, c))
		}
	}
	for _, t := range types {
		report.Types = append(report.Types, t.GetName())
		one := *s
		one.typ, one.silent = t, make(map[string]string)
		one.prepare(ctx)
		for _, c := range Checks() {
			if c.perType && o.wants(c) {
				report.Results = append(report.Results, one.result(ctx, c))
			}
		}
	}
	return report, ctx.Err()
}

// chosen returns the types to be checked.
func chosen(info *scorerv1.GetScorerInfoResponse, name string) ([]*scorerv1.ScorerType, error) {
	if name == "" {
		return info.GetTypes(), nil
	}
	var served []string
	for _, t := range info.GetTypes() {
		for _, n := range append([]string{t.GetName()}, t.GetAliases()...) {
			if n == name {
				return []*scorerv1.ScorerType{t}, nil
			}
			served = append(served, n)
		}
	}
	return nil, fmt.Errorf("it does not serve type %q but %s", name, strings.Join(served, ", "))
}

// prepare learns what the type must be given.
func (s *subject) prepare(ctx context.Context) {
	m, err := s.validate(ctx, s.typ.GetName(), s.options.Parameters)
	switch {
	case err != nil:
		s.refuse = broken("ValidateParameters: %s", words(err))
	case len(m.GetFaults()) > 0 && len(s.options.Parameters) == 0:
		s.refuse = broken("without parameters it says: %s", faultWords(m.GetFaults()))
	case len(m.GetFaults()) > 0:
		s.refuse = broken("of the parameters that were given it says: %s", faultWords(m.GetFaults()))
	default:
		s.needs = m.GetNeeds()
	}
}

func (s *subject) result(ctx context.Context, c Check) Result {
	r := Result{Check: c, Outcome: Passed}
	if s.typ != nil {
		r.Type = s.typ.GetName()
	}
	var err error
	switch {
	case ctx.Err() != nil:
		err = notApplicable("the run was ended before")
	case c.onGood && s.faulty != "":
		err = notApplicable("its answers break " + s.faulty)
	case s.silent[c.Group] != "":
		err = notApplicable("it gave no answer to " + s.silent[c.Group])
	case c.perType && c.Group != "parameters" && s.refuse != nil:
		err = notApplicable("there are no parameters to ask with")
	default:
		s.rated = new(atomic.Bool)
		if err = c.run(ctx, s); err == nil && c.rated && !s.rated.Load() {
			err = notApplicable("it abstained on every candidate, which shows nothing")
		}
	}
	if err == nil {
		return r
	}
	r.Reason = err.Error()
	if silent := new(silence); errors.As(err, silent) {
		s.silent[c.Group] = c.ID
	}
	var skip notApplicable
	switch {
	case errors.As(err, &skip):
		r.Outcome = Skipped
	case c.Level == Should:
		r.Outcome = Warned
	default:
		r.Outcome = Failed
		if aboutAnswer(c.ID) {
			s.faulty = c.ID
		}
	}
	return r
}

// has says whether a capability is listed.
func (s *subject) has(c scorerv1.Capability) bool {
	for _, listed := range s.info.GetCapabilities() {
		if listed == c {
			return true
		}
	}
	return false
}

// withCapability makes a check apply only where the capability is listed.
func withCapability(c scorerv1.Capability, run func(context.Context, *subject) error) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error {
		if !s.has(c) {
			return notApplicable(c.String() + " is not listed")
		}
		return run(ctx, s)
	}
}

// words are an error of gRPC as it is told.
func words(err error) string {
	st, ok := status.FromError(err)
	if !ok {
		return err.Error()
	}
	if st.Message() == "" {
		return st.Code().String()
	}
	return st.Code().String() + ": " + cut(st.Message())
}

func faultWords(faults []*scorerv1.ParameterFault) string {
	all := make([]string, len(faults))
	for i, f := range faults {
		all[i] = cut(f.GetMessage())
		if f.GetKey() != "" {
			all[i] = cut(f.GetKey()) + ": " + all[i]
		}
	}
	return strings.Join(all, "; ")
}

// cut shortens what a stranger sent to what may be shown.
func cut(s string) string {
	const most = 300
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s), "")
}
