package epconfig

import (
	"math"

	"github.com/pointsman/pointsman/services/router/internal/profile"
)

const (
	primaryPort = "primaryPort"
	portSchema  = `{"minimum": 0, "maximum": 65535}`
)

func handlerTypes() []*Type {
	return []*Type{
		{
			Name: profile.SingleType, Role: RoleHandler,
			Summary: "Runs the only scheduling profile; its pick is the request's endpoint.",
			New:     func(name string, _ *Params) (any, error) { return profile.NewSingle(name), nil },
		},
		{
			Name: profile.DisaggType, Role: RoleHandler,
			Summary: "Has prompts prefilled, and media encoded, by other endpoints than decode them: one profile picks for each stage, and deciders say which requests have it. " +
				"The decode profile's pick is where the request goes. See [disaggregation](disaggregation.md).",
			Parameters: disaggParameters(), New: newDisagg,
		},
		{
			Name: profile.PDType, Role: RoleHandler,
			Summary:    "Older form of " + profile.DisaggType + ", for prefill and decode.",
			Parameters: pdParameters(), New: newPD,
		},
		{
			Name: profile.DataParallelType, Role: RoleHandler,
			Summary: "Runs the only scheduling profile over endpoints that are the ranks of data-parallel servers, and has the request sent to the server's primary port, " +
				"with the rank that was picked in the header x-data-parallel-host-port. For sidecars that know that header; where each rank is reached at its own port, single-profile-handler does.",
			Parameters: []Parameter{
				{Name: primaryPort, Default: 8000, Summary: "Port at which all ranks of a server are reached.", Schema: `{"minimum": 1, "maximum": 65535}`},
			},
			New: func(name string, p *Params) (any, error) {
				port := p.port(primaryPort, 1)
				if p.Failed() {
					return nil, nil
				}
				return profile.NewDataParallel(name, port), nil
			},
		},
	}
}

// port reads a port number that is at least least.
func (p *Params) port(name string, least int) uint16 {
	n := p.Int(name)
	if n < least || n > math.MaxUint16 {
		p.Fault(p.At(name), name, "must be between %d and %d, not %d", least, math.MaxUint16, n)
		return 0
	}
	return uint16(n)
}
