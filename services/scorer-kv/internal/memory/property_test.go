package memory

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/pointsman/pointsman/internal/kit/roster"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer"
)

// TestPermutation asks both types for the same candidates in two orders: the scores
// move with the candidates and are in range.
func TestPermutation(t *testing.T) {
	p := newPool(t, 1)
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	candidate := rapid.Custom(func(t *rapid.T) *scorerv1.Candidate {
		c := &scorerv1.Candidate{EndpointId: rapid.StringMatching("[a-z]{3}").Draw(t, "id")}
		if rapid.IntRange(0, 3).Draw(t, "known") > 0 {
			c.Load = &scorerv1.EndpointLoad{
				KvCacheUsageRatio:  proto.Float32(rapid.Float32Range(0, 1).Draw(t, "usage")),
				CreditedTokenCount: rapid.Uint32().Draw(t, "credited"),
			}
			c.Adapters = &scorerv1.Adapters{
				Running: rapid.SliceOfN(name, 0, 3).Draw(t, "running"), Waiting: rapid.SliceOfN(name, 0, 3).Draw(t, "waiting"),
				MaxCount: rapid.Uint32Range(0, 6).Draw(t, "max"),
			}
		}
		return c
	})
	rapid.Check(t, func(t *rapid.T) {
		candidates := rapid.SliceOfN(candidate, 1, 20).Draw(t, "candidates")
		order := make([]int, len(candidates))
		for i := range order {
			order[i] = i
		}
		order = rapid.Permutation(order).Draw(t, "order")
		moved := make([]*scorerv1.Candidate, len(candidates))
		for to, from := range order {
			moved[to] = candidates[from]
		}
		for _, typ := range []scorer.Type{p.cache, p.lora} {
			var a, b scorerv1.ScoreResponse
			for list, out := range map[*scorerv1.ScoreRequest]*scorerv1.ScoreResponse{
				withModel("a", listed(candidates...)): &a, withModel("a", listed(moved...)): &b,
			} {
				if err := typ.Score(context.Background(), nil, list, out); err != nil {
					t.Fatal(err)
				}
			}
			x, y := byCandidate(&a, len(candidates)), byCandidate(&b, len(candidates))
			for to, from := range order {
				if x[from] != y[to] {
					t.Fatalf("%s: candidate %d has %v, at place %d %v", typ.Info().GetName(), from, x[from], to, y[to])
				}
				if x[from] > 1 || x[from] < 0 && x[from] != -1 {
					t.Fatalf("%s: candidate %d has %v", typ.Info().GetName(), from, x[from])
				}
			}
		}
	})
}

func BenchmarkScore(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		p := newPool(b, n)
		usage := make([]float32, n)
		for i := range usage {
			usage[i] = float32(i%10) / 10
		}
		adapters := map[uint32]*roster.Adapters{}
		for i := range uint32(n) {
			adapters[i] = &roster.Adapters{Running: []string{"adapter-1", "adapter-2"}, Waiting: []string{"adapter-3"}, Max: 3}
		}
		p.load(usage, adapters)
		for i := range uint64(n / 2) {
			p.r.Pick("router-1", i, id(int(i)), 500, p.now)
		}
		for _, typ := range []scorer.Type{p.cache, p.lora} {
			b.Run(fmt.Sprintf("%s/endpoints=%d", typ.Info().GetName(), n), func(b *testing.B) {
				req, out := withModel("adapter-3", p.of()), &scorerv1.ScoreResponse{}
				b.ReportAllocs()
				for b.Loop() {
					out.AbstainedOnAll, out.AbstainedIndices = false, out.AbstainedIndices[:0]
					if err := typ.Score(context.Background(), nil, req, out); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
