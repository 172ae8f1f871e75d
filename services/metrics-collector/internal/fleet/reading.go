package fleet

import (
	"slices"
	"time"

	"github.com/pointsman/pointsman/services/metrics-collector/internal/engine"
)

// Reading is what a page said, and when.
type Reading struct {
	// At is when the scrape began. Zero: never scraped.
	At time.Time
	engine.Figures
}

// unread is the reading of an endpoint that was never scraped.
func unread() Reading {
	return Reading{Figures: engine.Figures{Waiting: engine.Unknown, Running: engine.Unknown, KVCacheUsage: engine.Unknown}}
}

// Details are what an endpoint tells of itself beyond its load. They change rarely
// and are part of the table.
type Details struct {
	// Engine is the model server software. Empty: not known.
	Engine string
	// Models and adapters on offer, ascending. Empty: not known.
	Models []string
	// BlockSize is tokens in a KV-cache block, BlockCount the number of blocks.
	// 0: not known.
	BlockSize, BlockCount uint32
}

// Equal says whether both are the same.
func (d Details) Equal(o Details) bool {
	return d.Engine == o.Engine && d.BlockSize == o.BlockSize && d.BlockCount == o.BlockCount && slices.Equal(d.Models, o.Models)
}

// Empty says whether nothing is known.
func (d Details) Empty() bool {
	return d.Engine == "" && d.BlockSize == 0 && d.BlockCount == 0 && len(d.Models) == 0
}
