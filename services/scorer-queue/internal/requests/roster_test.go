package requests

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// pool is a roster whose clock stands still.
type pool struct {
	t     testing.TB
	now   int64
	r     *roster.Roster
	table *roster.Table
	types map[string]*Type
	// abstained notes what the types report.
	abstained map[scorerv1.AbstainReason]int
}

const limit = 5 * time.Second

func newPool(t testing.TB, n int) *pool {
	p := &pool{t: t, now: int64(time.Hour), abstained: map[scorerv1.AbstainReason]int{}}
	p.r = roster.New(roster.Config{StalenessLimit: limit, ReachAllowance: time.Millisecond, Clock: func() int64 { return p.now }})
	p.setTable(n)
	cfg := Config{Roster: p.r, StalenessLimit: limit, Abstained: func(_ string, r scorerv1.AbstainReason, n int) { p.abstained[r] += n }}
	p.types = map[string]*Type{"queue": NewQueue(cfg), "running": NewRunning(cfg), "load-aware": NewLoadAware(cfg)}
	return p
}

func id(i int) roster.ID { return roster.ID(fmt.Sprintf("e%04d", i)) }

func (p *pool) setTable(n int) {
	endpoints := make([]roster.Endpoint, n)
	for i := range endpoints {
		endpoints[i] = roster.Endpoint{ID: id(i), Host: "10.0.0.1", Port: uint16(1 + i)}
	}
	var err error
	if p.table, err = roster.NewTable(endpoints); err != nil {
		p.t.Fatal(err)
	}
	p.r.SetTable(p.table)
}

// load is a scrape of all endpoints; waiting and running are negative if unknown, an
// age negative if never scraped.
func (p *pool) load(waiting, running []int32, age ...time.Duration) {
	l := roster.Loads{TableDigest: p.table.Digest, Waiting: waiting, Running: running}
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

func (p *pool) score(kind string, req *scorerv1.ScoreRequest) *scorerv1.ScoreResponse {
	p.t.Helper()
	if req.Request == nil {
		req.Request = &scorerv1.InferenceRequest{RequestId: "r"}
	}
	instance, _, faults := p.types[kind].Parse(req.GetParametersJson())
	if len(faults) > 0 {
		p.t.Fatalf("parameters: %v", faults)
	}
	out := &scorerv1.ScoreResponse{}
	if err := p.types[kind].Score(context.Background(), instance, req, out); err != nil {
		p.t.Fatalf("score: %v", err)
	}
	return out
}

// of refers to positions of the table, to all of them if none are given.
func (p *pool) of(positions ...uint32) *scorerv1.ScoreRequest {
	return &scorerv1.ScoreRequest{Candidates: &scorerv1.ScoreRequest_Table{
		Table: &scorerv1.TableReference{TableDigest: p.table.Digest, Positions: positions},
	}}
}

func listed(candidates ...*scorerv1.Candidate) *scorerv1.ScoreRequest {
	return &scorerv1.ScoreRequest{Candidates: &scorerv1.ScoreRequest_Listed{Listed: &scorerv1.CandidateList{Candidates: candidates}}}
}
