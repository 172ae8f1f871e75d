// Command bench measures what a pick costs: `bench record` fills the table of
// docs/bench, `bench --help` tells of the rest.
package main

import (
	"os"

	"github.com/pointsman/pointsman/bench/app"
	"github.com/pointsman/pointsman/internal/kit/run"
)

func main() { os.Exit(run.Main("bench", app.Run)) }
