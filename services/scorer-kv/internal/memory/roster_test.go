package memory

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

const (
	limit   = 5 * time.Second
	unknown = scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT
	stale   = scorerv1.AbstainReason_ABSTAIN_REASON_STALE_STATE
	nothing = scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE
)

// pool is a roster whose clock stands still. Every endpoint has 100 blocks of 16
// tokens, except the last, which does not tell.
type pool struct {
	t     testing.TB
	now   int64
	r     *roster.Roster
	table *roster.Table
	cache *Cache
	lora  *Affinity
	// abstained notes what the types report.
	abstained map[scorerv1.AbstainReason]int
}

func newPool(t testing.TB, n int) *pool {
	p := &pool{t: t, now: int64(time.Hour), abstained: map[scorerv1.AbstainReason]int{}}
	p.r = roster.New(roster.Config{StalenessLimit: limit, ReachAllowance: time.Millisecond, Clock: func() int64 { return p.now }})
	endpoints := make([]roster.Endpoint, n)
	for i := range endpoints {
		endpoints[i] = roster.Endpoint{ID: id(i), Host: "10.0.0.1", Port: uint16(1 + i), CacheBlockSize: 16, CacheBlockCount: 100}
	}
	endpoints[n-1].CacheBlockCount = 0
	var err error
	if p.table, err = roster.NewTable(endpoints); err != nil {
		t.Fatal(err)
	}
	p.r.SetTable(p.table)
	cfg := Config{Roster: p.r, StalenessLimit: limit, Abstained: func(_ string, r scorerv1.AbstainReason, n int) { p.abstained[r] += n }}
	p.cache, p.lora = NewCache(cfg), NewAffinity(cfg)
	return p
}

func id(i int) roster.ID { return roster.ID(fmt.Sprintf("e%04d", i)) }

// load is a scrape of all endpoints; an age is negative if never scraped.
func (p *pool) load(usage []float32, adapters map[uint32]*roster.Adapters, age ...time.Duration) {
	l := roster.Loads{TableDigest: p.table.Digest, KV: usage, Adapters: adapters}
	for i := range p.table.Len() {
		switch {
		case i >= len(age):
			l.AgeMS = append(l.AgeMS, 0)
		case age[i] < 0:
			l.AgeMS = append(l.AgeMS, -1)
		default:
			l.AgeMS = append(l.AgeMS, int32(age[i].Milliseconds()))
		}
	}
	if err := p.r.ApplyLoads(l, p.now); err != nil {
		p.t.Fatal(err)
	}
}

func score(t testing.TB, typ scorer.Type, req *scorerv1.ScoreRequest) *scorerv1.ScoreResponse {
	t.Helper()
	out := &scorerv1.ScoreResponse{}
	if err := typ.Score(context.Background(), nil, req, out); err != nil {
		t.Fatalf("score: %v", err)
	}
	return out
}

// of refers to positions of the table, to all of them if none are given.
func (p *pool) of(positions ...uint32) *scorerv1.ScoreRequest {
	return &scorerv1.ScoreRequest{
		Request:    &scorerv1.InferenceRequest{RequestId: "r", Model: "base"},
		Candidates: &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: p.table.Digest, Positions: positions}},
	}
}

func listed(candidates ...*scorerv1.Candidate) *scorerv1.ScoreRequest {
	return &scorerv1.ScoreRequest{
		Request:    &scorerv1.InferenceRequest{RequestId: "r", Model: "base"},
		Candidates: &scorerv1.ScoreRequest_Listed{Listed: &scorerv1.CandidateList{Candidates: candidates}},
	}
}

// byCandidate returns the scores, -1 for an abstention.
func byCandidate(r *scorerv1.ScoreResponse, n int) []float32 {
	out := make([]float32, n)
	copy(out, r.GetScores())
	for i := range out {
		if r.GetAbstainedOnAll() {
			out[i] = -1
		}
	}
	for _, i := range r.GetAbstainedIndices() {
		out[i] = -1
	}
	return out
}
