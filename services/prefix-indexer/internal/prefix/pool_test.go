package prefix

import (
	"context"
	"fmt"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

const (
	scheme  = "xxh64-chain/1"
	unknown = scorerv1.AbstainReason_ABSTAIN_REASON_UNKNOWN_ENDPOINT
	nothing = scorerv1.AbstainReason_ABSTAIN_REASON_NOT_APPLICABLE
)

// chain hashes a prompt as routers do: XXH64 of the block and the hash before it, from
// the hash of the model on.
func chain(model, prompt string, size, limit int) []uint64 {
	h := xxhash.Sum64String(model)
	var out []uint64
	for ; len(prompt) >= size && len(out) < limit; prompt = prompt[size:] {
		before := make([]byte, 8)
		for i := range before {
			before[i] = byte(h >> (8 * i))
		}
		h = xxhash.Sum64(append([]byte(prompt[:size]), before...))
		out = append(out, h)
	}
	return out
}

// pool is a roster and an index that is told of its tables.
type pool struct {
	t     testing.TB
	r     *roster.Roster
	x     *index.Index
	typ   *Type
	table *roster.Table
	// What the type reports.
	abstained map[scorerv1.AbstainReason]int
	ratios    []float64
}

func id(i int) string { return fmt.Sprintf("e%04d", i) }

func newPool(t testing.TB, n int) *pool {
	p := &pool{t: t, r: roster.New(roster.Config{}), abstained: map[scorerv1.AbstainReason]int{}}
	var err error
	if p.x, err = index.New(index.DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	p.typ = New(Config{
		Roster: p.r, Index: p.x,
		Abstained: func(_ string, r scorerv1.AbstainReason, n int) { p.abstained[r] += n },
		Matched:   func(r float64) { p.ratios = append(p.ratios[:min(len(p.ratios), 100)], r) },
	})
	p.set(0, n)
	return p
}

// set makes the endpoints from…to−1 the pool.
func (p *pool) set(from, to int) {
	p.t.Helper()
	var endpoints []roster.Endpoint
	var ids []string
	for i := from; i < to; i++ {
		endpoints = append(endpoints, roster.Endpoint{ID: roster.ID(id(i)), Host: "10.0.0.1", Port: uint16(1 + i)})
		ids = append(ids, id(i))
	}
	var err error
	if p.table, err = roster.NewTable(endpoints); err != nil {
		p.t.Fatal(err)
	}
	p.r.SetTable(p.table)
	p.x.SetEndpoints(ids)
}

func (p *pool) place(endpoint, size int, hashes []uint64) {
	p.t.Helper()
	if _, err := p.x.Place(index.Key{Scheme: scheme, BlockSize: uint32(size)}, id(endpoint), hashes); err != nil {
		p.t.Fatal(err)
	}
}

// score asks with parameters, as the server does.
func (p *pool) score(parameters string, req *scorerv1.ScoreRequest) *scorerv1.ScoreResponse {
	p.t.Helper()
	inst, _, faults := p.typ.Parse([]byte(parameters))
	if len(faults) > 0 {
		p.t.Fatalf("parameters %s: %v", parameters, faults)
	}
	out := &scorerv1.ScoreResponse{}
	if err := p.typ.Score(context.Background(), inst, req, out); err != nil {
		p.t.Fatal(err)
	}
	return out
}

// of asks for hashes of blocks of a size on positions of the table, on all if none are
// given.
func (p *pool) of(size int, hashes []uint64, positions ...uint32) *scorerv1.ScoreRequest {
	return &scorerv1.ScoreRequest{
		Request:    &scorerv1.InferenceRequest{RequestId: "r", Prefix: &scorerv1.PrefixBlocks{Scheme: scheme, BlockSizeBytes: uint32(size), Hashes: hashes}},
		Candidates: &scorerv1.ScoreRequest_Table{Table: &scorerv1.TableReference{TableDigest: p.table.Digest, Positions: positions}},
	}
}

func (p *pool) listed(size int, hashes []uint64, ids ...string) *scorerv1.ScoreRequest {
	req := p.of(size, hashes)
	list := &scorerv1.CandidateList{}
	for _, id := range ids {
		list.Candidates = append(list.Candidates, &scorerv1.Candidate{EndpointId: id})
	}
	req.Candidates = &scorerv1.ScoreRequest_Listed{Listed: list}
	return req
}
