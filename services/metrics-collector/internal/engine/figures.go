package engine

import "slices"

// Unknown is the value of a count or usage that is not known.
const Unknown = -1

// Figures is what a page says of an endpoint.
type Figures struct {
	// Engine whose families were read. Empty if none was recognised.
	Engine Name
	// Waiting is the number of requests admitted but not yet running.
	Waiting int32
	// Running is the number of requests in the running batch.
	Running int32
	// KVCacheUsage is the share of KV-cache blocks in use, 0 to 1.
	KVCacheUsage float32
	// Adapters in use. Nil if the page does not tell of any. Shared between pages
	// that say the same; not to be changed.
	Adapters *Adapters
	// BlockSize is the number of tokens in a KV-cache block, BlockCount the number of
	// blocks. 0: not known.
	BlockSize, BlockCount uint32
	// Models that the series are labelled with, ascending. Shared as Adapters.
	Models []string
}

// Adapters is what a page says of LoRA adapters.
type Adapters struct {
	// Running are those in the running batch, Waiting those that only waiting
	// requests need. Both ascending, without repetition.
	Running, Waiting []string
	// Max is how many fit at once. 0: not known.
	Max uint32
}

// Known says whether any load figure is known. A page without one tells nothing
// about the endpoint's load and must not make older figures look fresh.
func (f *Figures) Known() bool {
	return f.Waiting != Unknown || f.Running != Unknown || f.KVCacheUsage != Unknown
}

// Equal says whether both adapters are the same. Nil equals nil only.
func (a *Adapters) Equal(b *Adapters) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Max == b.Max && slices.Equal(a.Running, b.Running) && slices.Equal(a.Waiting, b.Waiting)
}
