package modelserver

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/page"
)

// Config describes a server.
type Config struct {
	// Address is where it listens, "host:port"; port 0 takes a free one. Default "127.0.0.1:0".
	Address string
	// Name is told in the header x-sim-server of every answer. Empty, the default, means the address.
	Name string
	// Model is the name of the base model. Default "sim-model".
	Model string
	// Adapters are the LoRA adapters that requests can name from the start. They need Engine.MaxAdapters. Default none.
	Adapters []string
	// Engine is the modelled engine. Default engine.DefaultConfig().
	Engine engine.Config
	// Transfer is how KV-cache blocks go between this server and others. Default DefaultTransfer(): they do not.
	Transfer Transfer
	// MediaRole is what it has to do with what is encoded of images, audio and video elsewhere. Default NoRole.
	MediaRole MediaRole
	// Dialect is whose answers it gives where simulators and engines differ. Default VLLM.
	Dialect Dialect
	// TimeScale is how many times faster than the modelled engine it runs. Latencies on its metrics page are the
	// modelled ones. Default 1.
	TimeScale float64
	// MinAnswer and MaxAnswer are the bounds, in tokens, of an answer's natural length, which follows from the prompt.
	// A request's max_tokens may cut it, ignore_eos makes it max_tokens exactly. Defaults 16 and 256.
	MinAnswer, MaxAnswer int
	// EmbeddingSize is the number of dimensions of embeddings. Default 64.
	EmbeddingSize int
	// Page is the style of the metrics page. Default page.VLLM.
	Page page.Style
	// LargePage makes the page as large as a real server's, some 58 KB. Default false: 22 KB.
	LargePage bool
	// StartDelay is how long connections are refused after the start, as while a model is loaded. Default 0.
	StartDelay time.Duration
	// StartupDuration is how long /health/ready says after the start that it is not ready. All else works meanwhile.
	// Default 0.
	StartupDuration time.Duration
	// Faults are switched on from the start. Default none.
	Faults Faults
	// Seed decides which requests a fault with a probability hits. Default 1.
	Seed uint64
	// Log gets what goes wrong in the server itself. nil, the default, means nowhere.
	Log *slog.Logger
}

// DefaultConfig returns the defaults named at each field.
func DefaultConfig() Config {
	return Config{
		Address:       "127.0.0.1:0",
		Model:         "sim-model",
		Engine:        engine.DefaultConfig(),
		Transfer:      DefaultTransfer(),
		Dialect:       VLLM,
		TimeScale:     1,
		MinAnswer:     16,
		MaxAnswer:     256,
		EmbeddingSize: 64,
		Page:          page.VLLM,
		Seed:          1,
	}
}

// Validate reports all faults of c at once.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(c.Address != "", "Address: must not be empty")
	check(c.Model != "", "Model: must not be empty")
	check(!slices.Contains(c.Adapters, c.Model), "Adapters: %q is the base model", c.Model)
	check(!slices.Contains(c.Adapters, ""), "Adapters: a name must not be empty")
	check(len(c.Adapters) == 0 || c.Engine.MaxAdapters > 0, "Adapters: the engine's MaxAdapters is 0")
	check(c.TimeScale > 0, "TimeScale %v: must be positive", c.TimeScale)
	check(c.MinAnswer > 0 && c.MinAnswer <= c.MaxAnswer, "MinAnswer %d, MaxAnswer %d: must be positive and in order", c.MinAnswer, c.MaxAnswer)
	check(c.EmbeddingSize > 0, "EmbeddingSize %d: must be positive", c.EmbeddingSize)
	check(slices.Contains([]MediaRole{NoRole, MediaProducer, MediaConsumer}, c.MediaRole), "MediaRole %q: must be producer, consumer or empty", c.MediaRole)
	check(c.Dialect == VLLM || c.Dialect == LLMDSim, "Dialect %q: must be %s or %s", c.Dialect, VLLM, LLMDSim)
	check(c.StartupDuration >= 0, "StartupDuration %v: must not be negative", c.StartupDuration)
	check(c.StartDelay >= 0, "StartDelay %v: must not be negative", c.StartDelay)
	faults = append(faults, c.Faults.Validate(), c.Transfer.Validate(), c.Engine.Validate())
	if c.Engine.Validate() == nil {
		faults = append(faults, c.page().Validate())
	}
	return errors.Join(faults...)
}

// modelLen is the most tokens of prompt and answer together.
func (c Config) modelLen() int {
	if c.Engine.MaxModelLen > 0 {
		return c.Engine.MaxModelLen
	}
	return c.Engine.BlockSize * c.Engine.NumBlocks
}

func (c Config) page() page.Options {
	return page.Options{
		Style: c.Page, Model: c.Model, BlockSize: c.Engine.BlockSize, NumBlocks: c.Engine.NumBlocks, ModelLen: c.modelLen(),
		MaxAdapters: c.Engine.MaxAdapters, Large: c.LargePage, Transfers: c.Transfer.Connector != NoConnector, Mode: string(c.Transfer.Mode),
	}
}
