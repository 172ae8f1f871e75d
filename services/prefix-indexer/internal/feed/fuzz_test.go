package feed

import (
	"testing"

	"google.golang.org/protobuf/proto"

	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

// FuzzForeignMessages takes any bytes as a broadcast and as a page of a copy: nothing
// may panic, and the index must stay within its endpoints' capacities.
func FuzzForeignMessages(f *testing.F) {
	seed := func(m proto.Message) {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	seed(&statev1.PrefixBatch{Placements: []*statev1.PrefixPlacement{placement("a", chain(1, 2, 5)), placement("b", nil), placement("stranger", chain(1, 1, 1))}})
	seed(&statev1.GetPrefixesResponse{Placements: []*statev1.PrefixPlacement{
		placement("a", append([]uint64{0}, chain(1, 2, 5)...)), placement("b", []uint64{7}), placement("c", []uint64{1, 1, 1}),
	}})
	f.Add([]byte("no message at all"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg := index.DefaultConfig()
		cfg.DefaultCapacity = 20
		x, err := index.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		x.SetEndpoints(ids)
		var batch statev1.PrefixBatch
		if proto.Unmarshal(data, &batch) == nil {
			for _, p := range batch.GetPlacements() {
				_, _ = x.Place(keyOf(p), p.GetEndpointId(), p.GetHashes())
			}
		}
		var page statev1.GetPrefixesResponse
		if proto.Unmarshal(data, &page) == nil {
			for _, p := range page.GetPlacements() {
				if s, ok := fromWire(p); ok {
					x.Adopt(s)
				}
			}
		}
		if n := x.Stats().Entries; n < 0 || n > int64(cfg.DefaultCapacity*len(ids)*index.MaxForests) {
			t.Errorf("%d entries", n)
		}
		for _, s := range x.Export().Next(1 << 20) {
			if len(s.Blocks) == 0 {
				t.Error("an empty segment")
			}
		}
	})
}
