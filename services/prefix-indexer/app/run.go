package app

import (
	"context"
	"io"

	"github.com/pointsman/pointsman/internal/kit/scorersvc"
	"github.com/pointsman/pointsman/sdk/scorer"
)

// Name is the service's name.
const Name = "prefix-indexer"

// Run runs the service until ctx ends. args are the command line without the
// program's name; the addresses of the listeners are printed on stdout.
func Run(ctx context.Context, args []string, stdout io.Writer) error {
	cfg := DefaultConfig()
	return scorersvc.Run(ctx, args, stdout, Name, &cfg, func(s *scorersvc.Service) ([]scorer.Type, error) { return types(s, cfg) })
}
