// Command router picks which model server answers each request. See package app.
package main

import (
	"os"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/services/router/app"
)

func main() { os.Exit(run.Main("router", app.Run)) }
