package state

import (
	"slices"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// Endpoint is one endpoint as it is known now.
type Endpoint struct {
	// ID names it for as long as it lives.
	ID string
	// Known says that it is in the table; if it is not, only ID is set.
	Known bool
	// Address is host and port of its API.
	Address string
	// Engine is the model server software, such as "vllm"; empty if not known.
	Engine string
	// Models are on offer; empty if not known. The slice is not to be changed.
	Models []string
	// Waiting and Running count its requests; -1 if not known.
	Waiting, Running int
	// KVCacheUsage is the share of its KV-cache blocks in use, 0 to 1; -1 if not known.
	KVCacheUsage float64
	// Age is that of the figures; negative if they were never read.
	Age time.Duration
	// Fresh says that the figures are younger than Config.StalenessLimit.
	Fresh bool
	// InFlight are requests of all routers that were given to it and have not ended.
	InFlight int
	// CreditedRequests are those that its figures cannot include yet, and
	// CreditedTokens their prompt tokens that it had not cached.
	CreditedRequests, CreditedTokens int

	endpoint *roster.Endpoint
}

// Label returns one of its labels.
func (e Endpoint) Label(name string) (value string, ok bool) {
	if e.endpoint == nil {
		return "", false
	}
	return e.endpoint.Label(name)
}

// unknown is an endpoint that is not in the table.
func unknown(id string) Endpoint {
	return Endpoint{ID: id, Waiting: -1, Running: -1, KVCacheUsage: -1, Age: -1}
}

// endpointAt is the endpoint at a position of a snapshot.
func endpointAt(s *roster.Snapshot, pos int, now int64) Endpoint {
	e := &s.Table.Endpoints[pos]
	requests, tokens := s.Credit(pos)
	return Endpoint{
		ID: string(e.ID), Known: true, Address: e.Address, Engine: e.Engine, Models: slices.Clip(e.Models), endpoint: e,
		Waiting: int(s.Waiting[pos]), Running: int(s.Running[pos]), KVCacheUsage: float64(s.KV[pos]),
		Age: s.Age(pos, now), Fresh: s.Fresh(pos, now),
		InFlight: int(s.InFlight(pos)), CreditedRequests: int(requests), CreditedTokens: int(tokens),
	}
}
