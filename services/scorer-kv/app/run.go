package app

import (
	"context"
	"io"

	"github.com/pointsman/pointsman/internal/kit/scorersvc"
)

// Name is the service's name.
const Name = "scorer-kv"

// Run runs the service until ctx ends. args are the command line without the
// program's name; the addresses of the listeners are printed on stdout.
func Run(ctx context.Context, args []string, stdout io.Writer) error {
	cfg := scorersvc.DefaultConfig()
	return scorersvc.Run(ctx, args, stdout, Name, &cfg, types)
}
