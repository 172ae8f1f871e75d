package fleet

import (
	"fmt"

	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/page"
)

// variants is how many different pages there are, which servers show in turn, each
// beginning with another, so that figures change from scrape to scrape.
const variants = 32

// NewPages returns ready-made responses with the metrics page of a vLLM server: of its
// real size of 50 KB if large, else with the families that matter.
func NewPages(model string, large bool) (func(i int, n uint64) []byte, error) {
	p, err := page.New(page.Options{Style: page.VLLM, Model: model, BlockSize: 16, NumBlocks: 8192, ModelLen: 32768, Large: large})
	if err != nil {
		return nil, fmt.Errorf("make metrics pages: %w", err)
	}
	all := make([][]byte, variants)
	for i := range all {
		f := page.Figures{
			Stats:         engine.Stats{Running: 4 + i%9, Waiting: i % 4, BlocksUsed: 2000 + 300*(i%16), BlocksTotal: 8192},
			Distributions: p.NewDistributions(), Created: 1.7e9,
		}
		all[i] = response(page.ContentType, nil, p.Append(nil, &f))
	}
	return func(i int, n uint64) []byte { return all[(uint64(i)*7+n)%variants] }, nil //nolint:gosec // a server's number
}
