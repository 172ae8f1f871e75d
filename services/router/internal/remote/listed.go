package remote

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// listed writes the candidates out in full, with what the instance asked for. now is
// on the roster's clock, wall by the wall's.
func listed(s *roster.Snapshot, candidates []uint32, n *needs, now int64, wall time.Time) *scorerv1.ScoreRequest_Listed {
	all := make([]scorerv1.Candidate, len(candidates))
	list := make([]*scorerv1.Candidate, len(candidates))
	for i, pos := range candidates {
		p := int(pos)
		e, c := &s.Table.Endpoints[p], &all[i]
		c.EndpointId = string(e.ID)
		if n.labels {
			c.Labels = labelsOf(e)
		}
		if n.load {
			c.Load = loadOf(s, p, now, wall)
		}
		if a := s.Adapters; n.adapters && p < len(a) && a[p] != nil {
			c.Adapters = adaptersOf(a[p])
		}
		list[i] = c
	}
	return &scorerv1.ScoreRequest_Listed{Listed: &scorerv1.CandidateList{Candidates: list}}
}

// loadOf returns an endpoint's load; nil if it was never read.
func loadOf(s *roster.Snapshot, pos int, now int64, wall time.Time) *scorerv1.EndpointLoad {
	age := s.Age(pos, now)
	if age < 0 {
		return nil
	}
	l := &scorerv1.EndpointLoad{ObserveTime: timestamppb.New(wall.Add(-age))}
	if v := s.Waiting[pos]; v >= 0 {
		n := uint32(v) //nolint:gosec // not negative
		l.WaitingRequestCount = &n
	}
	if v := s.Running[pos]; v >= 0 {
		n := uint32(v) //nolint:gosec // not negative
		l.RunningRequestCount = &n
	}
	if v := s.KV[pos]; v >= 0 {
		l.KvCacheUsageRatio = &v
	}
	l.CreditedRequestCount, l.CreditedTokenCount = credit(s, pos)
	return l
}
