package scorer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
)

// Limits of the contract.
const (
	MaxCandidates = 4096
	MaxHashes     = 8192
	MaxIDBytes    = 128
	MaxOutcomes   = 1000
	HeldTables    = 8 // taught tables that a stream keeps
)

// Config has the knobs of a [Server].
type Config struct {
	// CheckAnswers has every answer of a Type checked against the contract.
	// Default true; it costs well under a microsecond for 128 candidates.
	CheckAnswers bool
	// ParameterCacheSize is how many distinct parameters of one type are kept
	// parsed. Default 256; raise it if more are configured at once.
	ParameterCacheSize int
	// Log receives what only the scorer's operator can mend: panics and broken
	// answers of Types. Default: nowhere.
	Log *slog.Logger
	// Observe, if set, is called after every call on the goroutine of the call,
	// so it must be quick.
	Observe func(Observation)
	// ReportOutcomes, if set, receives valid outcome batches. It must be set
	// exactly if CAPABILITY_OUTCOMES is listed.
	ReportOutcomes func(context.Context, *scorerv1.ReportOutcomesRequest) error
}

// Observation is one call as seen from the server.
type Observation struct {
	// Type is the name of the scorer type, never an alias; empty if it is unknown.
	Type string
	// Stream says that the call came on a stream.
	Stream bool
	// Code is codes.OK or that of the error.
	Code codes.Code
	// Abstained says that no candidate was rated although the call succeeded.
	Abstained bool
	// Took is the time from the call's turn to its answer.
	Took time.Duration
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{CheckAnswers: true, ParameterCacheSize: 256}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	if c.ParameterCacheSize <= 0 {
		return errors.New("the parameter cache size must be positive")
	}
	return nil
}
