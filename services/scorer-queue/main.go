// Command scorer-queue serves the scorers that go by the requests that wait and run on
// the endpoints.
package main

import (
	"os"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/services/scorer-queue/app"
)

func main() { os.Exit(run.Main(app.Name, app.Run)) }
