// Command prefix-indexer remembers which endpoint was sent which prompt, and serves the
// scorer that goes by it.
package main

import (
	"os"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/services/prefix-indexer/app"
)

func main() { os.Exit(run.Main(app.Name, app.Run)) }
