package cli

import (
	"context"
	"io"

	prefixindexer "github.com/pointsman/pointsman/services/prefix-indexer/app"
	routerapp "github.com/pointsman/pointsman/services/router/app"
	scorerkv "github.com/pointsman/pointsman/services/scorer-kv/app"
	scorerqueue "github.com/pointsman/pointsman/services/scorer-queue/app"
)

// serve runs a router as the service does, with the same flags and settings, that asks
// the built-in scorers in its own process unless its settings say where they are.
func serve(ctx context.Context, args []string, stdout io.Writer) error {
	return routerapp.RunWith(ctx, args, stdout, scorerqueue.Embeddable(), scorerkv.Embeddable(), prefixindexer.Embeddable())
}
