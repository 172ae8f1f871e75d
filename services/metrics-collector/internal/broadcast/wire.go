package broadcast

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pointsman/pointsman/internal/kit/follower"
	"github.com/pointsman/pointsman/internal/kit/roster"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/engine"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

// tableProto puts a view's table on the wire, without stamp.
func tableProto(v *fleet.View) (*statev1.EndpointTable, error) {
	endpoints := make([]roster.Endpoint, 0, len(v.Members))
	for i := range v.Members {
		m := &v.Members[i]
		e := roster.Endpoint{
			ID: roster.ID(m.ID), Host: m.Target.Host, Port: m.Target.Port, Scheme: m.Target.Scheme,
			Engine: m.Details.Engine, Models: m.Details.Models, CacheBlockSize: m.Details.BlockSize, CacheBlockCount: m.Details.BlockCount,
		}
		for _, l := range m.Target.Labels {
			e.Labels = append(e.Labels, roster.Label(l))
		}
		endpoints = append(endpoints, e)
	}
	t, err := roster.NewTable(endpoints)
	if err != nil {
		return nil, fmt.Errorf("make the table: %w", err)
	}
	m := follower.TableProto(t)
	m.ChangeTime = timestamppb.New(v.Changed)
	return m, nil
}

// entries reads another collector's table.
func entries(m *statev1.EndpointTable) ([]fleet.TableEntry, []fleet.ID, error) {
	t, err := follower.TableFromProto(m)
	if err != nil {
		return nil, nil, err
	}
	es, ids := make([]fleet.TableEntry, 0, t.Len()), make([]fleet.ID, 0, t.Len())
	for i := range t.Endpoints {
		e := &t.Endpoints[i]
		es = append(es, fleet.TableEntry{ID: fleet.ID(e.ID), Address: e.Address, Details: fleet.Details{
			Engine: e.Engine, Models: e.Models, BlockSize: e.CacheBlockSize, BlockCount: e.CacheBlockCount,
		}})
		ids = append(ids, fleet.ID(e.ID))
	}
	return es, ids, nil
}

// loads is a sample on its way out. Its memory is used again.
type loads struct{ message statev1.EndpointLoads }

// fill makes the message tell of the readings at these positions, of those that were
// ever taken. It returns false if that is none.
func (l *loads) fill(digest uint64, positions []int, readings []fleet.Reading, now time.Time) bool {
	m := &l.message
	m.TableDigest = digest
	m.Positions, m.AgeMs, m.Adapters = m.Positions[:0], m.AgeMs[:0], m.Adapters[:0]
	m.WaitingRequestCounts, m.RunningRequestCounts, m.KvCacheUsageRatios = m.WaitingRequestCounts[:0], m.RunningRequestCounts[:0], m.KvCacheUsageRatios[:0]
	for _, p := range positions {
		r := &readings[p]
		if r.At.IsZero() {
			continue
		}
		m.Positions = append(m.Positions, uint32(p)) //nolint:gosec // at most 4096
		m.AgeMs = append(m.AgeMs, milliseconds(now.Sub(r.At)))
		m.WaitingRequestCounts = append(m.WaitingRequestCounts, r.Waiting)
		m.RunningRequestCounts = append(m.RunningRequestCounts, r.Running)
		m.KvCacheUsageRatios = append(m.KvCacheUsageRatios, r.KVCacheUsage)
		if a := r.Adapters; a != nil {
			m.Adapters = append(m.Adapters, &statev1.EndpointAdapters{
				Position: uint32(p), Running: a.Running, Waiting: a.Waiting, MaxCount: a.Max, //nolint:gosec // at most 4096
			})
		}
	}
	return len(m.Positions) > 0
}

func milliseconds(d time.Duration) int32 {
	return int32(min(max(d.Milliseconds(), 0), math.MaxInt32))
}

// readings calls f with each reading in a sample of a table of these ids.
func readings(m *statev1.EndpointLoads, ids []fleet.ID, received time.Time, f func(fleet.ID, fleet.Reading)) {
	l := follower.LoadsFromProto(m)
	for i, age := range l.AgeMS {
		pos := i
		if len(l.Positions) > 0 {
			if i >= len(l.Positions) {
				return
			}
			pos = int(l.Positions[i])
		}
		if age < 0 || pos >= len(ids) {
			continue
		}
		r := fleet.Reading{At: received.Add(-time.Duration(age) * time.Millisecond), Figures: engine.Figures{
			Waiting: figure(l.Waiting, i), Running: figure(l.Running, i), KVCacheUsage: figure(l.KV, i),
		}}
		if a := l.Adapters[uint32(pos)]; a != nil { //nolint:gosec // checked
			r.Adapters = &engine.Adapters{Running: a.Running, Waiting: a.Waiting, Max: a.Max}
		}
		f(ids[pos], r)
	}
}

// figure is entry i of a column, unknown if it is not there or no figure.
func figure[T int32 | float32](column []T, i int) T {
	if i < len(column) && column[i] >= 0 {
		return column[i]
	}
	return engine.Unknown
}
