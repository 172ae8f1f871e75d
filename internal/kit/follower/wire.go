package follower

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/roster"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// TableFromProto reads a table from the wire. It is an error if the message breaks
// a rule of the contract, a digest that does not fit the members included.
func TableFromProto(m *statev1.EndpointTable) (*roster.Table, error) {
	endpoints := make([]roster.Endpoint, 0, len(m.GetEndpoints()))
	for _, e := range m.GetEndpoints() {
		if e.GetPort() == 0 || e.GetPort() > 65535 {
			return nil, fmt.Errorf("endpoint %q has port %d", e.GetEndpointId(), e.GetPort())
		}
		r := roster.Endpoint{
			ID: roster.ID(e.GetEndpointId()), Host: e.GetHost(), Port: uint16(e.GetPort()), Scheme: e.GetScheme(), Engine: e.GetEngine(),
			Models: slices.Clone(e.GetModels()), CacheBlockSize: e.GetCacheBlockSizeTokens(), CacheBlockCount: e.GetCacheBlockCount(),
		}
		for _, l := range e.GetLabels() {
			r.Labels = append(r.Labels, roster.Label{Name: l.GetName(), Value: l.GetValue()})
		}
		endpoints = append(endpoints, r)
	}
	t, err := roster.NewTable(endpoints)
	if err != nil {
		return nil, fmt.Errorf("table from %q: %w", m.GetStamp().GetPublisherId(), err)
	}
	if t.Digest != m.GetDigest() {
		return nil, fmt.Errorf("table from %q says digest %016x, its members have %016x", m.GetStamp().GetPublisherId(), m.GetDigest(), t.Digest)
	}
	return t, nil
}

// TableProto puts a table on the wire, without stamp and change time.
func TableProto(t *roster.Table) *statev1.EndpointTable {
	m := &statev1.EndpointTable{Digest: t.Digest, Endpoints: make([]*statev1.Endpoint, 0, t.Len())}
	for i := range t.Endpoints {
		e := &t.Endpoints[i]
		w := &statev1.Endpoint{
			EndpointId: string(e.ID), Host: e.Host, Port: uint32(e.Port), Models: e.Models, Engine: e.Engine, Scheme: e.Scheme,
			CacheBlockSizeTokens: e.CacheBlockSize, CacheBlockCount: e.CacheBlockCount,
		}
		for _, l := range e.Labels {
			w.Labels = append(w.Labels, &statev1.Label{Name: l.Name, Value: l.Value})
		}
		m.Endpoints = append(m.Endpoints, w)
	}
	return m
}

// LoadsFromProto reads a sample from the wire. The columns share the message's memory.
func LoadsFromProto(m *statev1.EndpointLoads) roster.Loads {
	l := roster.Loads{
		TableDigest: m.GetTableDigest(), Positions: m.GetPositions(), AgeMS: m.GetAgeMs(),
		Waiting: m.GetWaitingRequestCounts(), Running: m.GetRunningRequestCounts(), KV: m.GetKvCacheUsageRatios(),
	}
	if len(m.GetAdapters()) > 0 {
		l.Adapters = make(map[uint32]*roster.Adapters, len(m.GetAdapters()))
		for _, a := range m.GetAdapters() {
			l.Adapters[a.GetPosition()] = &roster.Adapters{Running: sorted(a.GetRunning()), Waiting: sorted(a.GetWaiting()), Max: a.GetMaxCount()}
		}
	}
	return l
}

func sorted(names []string) []string {
	if slices.IsSorted(names) {
		return names
	}
	names = slices.Clone(names)
	slices.SortFunc(names, strings.Compare)
	return names
}
