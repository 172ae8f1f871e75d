// Command metrics-collector finds the endpoints of a pool, scrapes their metrics pages
// and broadcasts what they say.
package main

import (
	"os"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/services/metrics-collector/app"
)

func main() { os.Exit(run.Main(app.Name, app.Run)) }
