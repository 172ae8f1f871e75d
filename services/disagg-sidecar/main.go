// Command disagg-sidecar stands beside a model server that decodes, and has prompts
// prefilled by others.
package main

import (
	"os"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/services/disagg-sidecar/app"
)

func main() { os.Exit(run.Main(app.Name, app.Run)) }
