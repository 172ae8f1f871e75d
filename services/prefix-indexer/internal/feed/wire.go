package feed

import (
	"slices"

	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

func keyOf(p *statev1.PrefixPlacement) index.Key {
	return index.Key{Scheme: p.GetScheme(), BlockSize: p.GetBlockSizeBytes()}
}

// toWire puts segments on the wire, the parent before the blocks.
func toWire(segments []index.Segment) []*statev1.PrefixPlacement {
	out := make([]*statev1.PrefixPlacement, len(segments))
	for i, s := range segments {
		out[i] = &statev1.PrefixPlacement{
			EndpointId: s.Endpoint, Scheme: s.Key.Scheme, BlockSizeBytes: s.Key.BlockSize,
			Hashes: slices.Insert(s.Blocks, 0, s.Parent),
		}
	}
	return out
}

// fromWire reads a segment; false if there is none.
func fromWire(p *statev1.PrefixPlacement) (index.Segment, bool) {
	h := p.GetHashes()
	if len(h) < 2 {
		return index.Segment{}, false
	}
	return index.Segment{Key: keyOf(p), Endpoint: p.GetEndpointId(), Parent: h[0], Blocks: h[1:]}, true
}
