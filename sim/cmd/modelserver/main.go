// Command modelserver runs simulated model servers.
package main

import (
	"os"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/sim/modelserver/app"
)

func main() { os.Exit(run.Main("modelserver", app.Run)) }
