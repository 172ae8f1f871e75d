package route_test

import (
	"testing"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// F43: blocks follow the endpoints' cache where that is wanted and known.
func TestBlockSize(t *testing.T) {
	table := func(sizes ...uint32) *roster.Table {
		var endpoints []roster.Endpoint
		for i, s := range sizes {
			endpoints = append(endpoints, roster.Endpoint{ID: roster.ID(rune('a' + i)), Host: "h", Port: 1, CacheBlockSize: s})
		}
		tb, err := roster.NewTable(endpoints)
		if err != nil {
			t.Fatal(err)
		}
		return tb
	}
	for name, c := range map[string]struct {
		table   *roster.Table
		follows bool
		want    int
	}{
		"F43 16 tokens":       {table(16, 16), true, 64},
		"the largest counts":  {table(16, 0, 32), true, 128},
		"nobody tells":        {table(0, 0), true, 100},
		"nobody is there":     {table(), true, 100},
		"it is not wanted":    {table(16), false, 100},
		"beyond all measures": {table(1 << 20), true, 100},
	} {
		if got := route.BlockSize(c.table, 100, c.follows); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}
