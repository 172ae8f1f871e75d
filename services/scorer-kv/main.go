// Command scorer-kv serves the scorers that go by what the endpoints hold in GPU memory:
// KV-cache and LoRA adapters.
package main

import (
	"os"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/services/scorer-kv/app"
)

func main() { os.Exit(run.Main(app.Name, app.Run)) }
