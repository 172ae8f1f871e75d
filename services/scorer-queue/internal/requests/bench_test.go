package requests

import (
	"context"
	"fmt"
	"testing"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

func BenchmarkScore(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			p := newPool(b, n)
			waiting := make([]int32, n)
			for i := range waiting {
				waiting[i] = int32(i % 17)
			}
			p.load(waiting, waiting)
			req, out := p.of(), &scorerv1.ScoreResponse{}
			req.Request = &scorerv1.InferenceRequest{RequestId: "r"}
			req.Pending = &scorerv1.PendingPicks{RouterId: "router-1", Sequences: []uint64{1, 2, 3}, Positions: []uint32{1, 2, 3}, UncachedTokenCounts: []uint32{1, 2, 3}}
			b.ReportAllocs()
			for b.Loop() {
				if err := p.types["queue"].Score(context.Background(), nil, req, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
