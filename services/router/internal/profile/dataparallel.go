package profile

import "github.com/pointsman/pointsman/services/router/internal/route"

// DataParallelType is the type name of DataParallel.
const DataParallelType = "data-parallel-profile-handler"

// DataParallel runs the only profile, over endpoints that are ranks of data-parallel
// servers, and has the request sent to the server's primary port with the rank in a
// header.
type DataParallel struct {
	Single
	port   uint16
	policy route.Policy
}

var _ route.Planner = (*DataParallel)(nil)

// NewDataParallel returns a handler for servers with that primary port.
func NewDataParallel(name string, primaryPort uint16) *DataParallel {
	return &DataParallel{Single: Single{name: name}, port: primaryPort}
}

// Work implements route.Planner.
func (*DataParallel) Work(*route.Cycle, []*route.ProfileResult, *route.ProfileResult) route.Work {
	return route.WorkAll
}

// Plan implements route.Planner.
func (h *DataParallel) Plan(*route.Cycle, []*route.ProfileResult, *route.ProfileResult) (*route.Plan, error) {
	return &route.Plan{Policy: &h.policy, Connector: route.ConnectorSidecar, PrimaryPort: h.port}, nil
}
