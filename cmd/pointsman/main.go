// Command pointsman runs Pointsman on one machine and answers questions about a
// running router. See package cli.
package main

import (
	"os"

	"github.com/pointsman/pointsman/cmd/pointsman/internal/cli"
	"github.com/pointsman/pointsman/internal/kit/run"
)

func main() { os.Exit(run.Main("pointsman", cli.Run)) }
