package remote

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/rpc"
)

// FailurePolicy says what a scorer's silence means for a request.
type FailurePolicy string

// Failure policies. Empty is Ignore.
const (
	Ignore FailurePolicy = "Ignore" // the other scorers decide
	Fail   FailurePolicy = "Fail"   // the request fails
)

// Transport says how a scorer is called.
type Transport string

// Transports. Empty is Auto.
const (
	Auto   Transport = "auto"   // stream if the scorer has it, else unary
	Stream Transport = "stream" // stream, or not at all
	Unary  Transport = "unary"  // one call per request
)

// ScorerConfig is one scorer service.
type ScorerConfig struct {
	// Name names the service in metrics, words and status: lower-case letters,
	// digits and "-", at most 63. The names of the built-in services (scorer-queue,
	// scorer-kv, prefix-indexer) say where those are; any other adds a service.
	Name string `yaml:"name"`
	// Target is where it is: "dns:///NAME:PORT" (every address of the name is a
	// replica, looked up every few seconds), "HOST:PORT" or several of them with
	// commas, "unix:///PATH", or "embedded": in the router's own process, for programs that have
	// the scorer within ("pointsman serve" has the built-in ones). Default for the built-in
	// services: embedded where they are within, else dns:///<name>:9100.
	Target string `yaml:"target"`
	// Settings is a file with the settings of an embedded scorer, as its service takes with
	// --config; pool, nats, listen, roster, admin, log and tracing are the router's. Default: the
	// service's defaults.
	Settings string `yaml:"settings"`
	// Types are the scorer types that are asked of this service, whoever else serves
	// them. Default: those that it says it serves. Set it to choose between two
	// services of one type, or to load a configuration while the service is down.
	Types []string `yaml:"types"`
	// Timeout caps one call. Default: what all scorers have together. Lower it for a
	// scorer that is not worth waiting for.
	Timeout conf.Duration `yaml:"timeout"`
	// FailurePolicy is Ignore or Fail. Default Ignore.
	FailurePolicy FailurePolicy `yaml:"failurePolicy"`
	// Transport is one of auto, stream and unary. Default auto.
	Transport Transport `yaml:"transport"`
	// PromptText allows sending prompts, which are user data, to a scorer that asks
	// for them. Default false: such a scorer is refused.
	PromptText bool `yaml:"promptText"`
	// TLS secures the connections. Default: plain text.
	TLS rpc.TLSConfig `yaml:"tls"`
}

// Config is all scorer services and how they are found.
type Config struct {
	// Scorers are services beside the built-in ones, and other settings for those.
	Scorers []ScorerConfig `yaml:"scorers"`
	// ScorerWait is how long loading a configuration, at the start or later, waits for
	// scorers that have not been reached. Default 5 s. Raise it where
	// scorers start much later than routers.
	ScorerWait conf.Duration `yaml:"scorerWait"`
	// ScorerLookup is the time between two look-ups of a scorer's name. Default 5 s.
	// A lower one finds new replicas sooner at the price of DNS traffic.
	ScorerLookup conf.Duration `yaml:"scorerLookup"`
	// ScorerAnswerBytes bounds one message from a scorer, in bytes. Default 4 MiB,
	// which is far above what 256 answers about 512 endpoints take.
	ScorerAnswerBytes int `yaml:"scorerAnswerBytes"`
}

// DefaultConfig returns the built-in services at their default targets.
func DefaultConfig() Config {
	return Config{
		ScorerWait:        conf.Duration(5 * time.Second),
		ScorerLookup:      conf.Duration(5 * time.Second),
		ScorerAnswerBytes: 4 << 20,
	}
}

// Validate returns all faults, each beginning with its key.
func (c Config) Validate() error {
	var errs []error
	if c.ScorerWait < 0 {
		errs = append(errs, fmt.Errorf("scorerWait: must not be below zero, not %v", c.ScorerWait))
	}
	if c.ScorerLookup.D() < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("scorerLookup: must be at least 100ms, not %v", c.ScorerLookup))
	}
	if c.ScorerAnswerBytes < 64<<10 {
		errs = append(errs, fmt.Errorf("scorerAnswerBytes: must be at least %d, not %d", 64<<10, c.ScorerAnswerBytes))
	}
	named, taken := make(map[string]bool), make(map[string]string)
	for i, s := range c.Scorers {
		key := fmt.Sprintf("scorers[%d]", i)
		errs = append(errs, conf.Prefix(key, s.validate()))
		if named[s.Name] {
			errs = append(errs, fmt.Errorf("%s.name: %q is there twice", key, s.Name))
		}
		named[s.Name] = true
		for _, t := range s.Types {
			if other, twice := taken[t]; twice {
				errs = append(errs, fmt.Errorf("%s.types: %q is taken by scorer %q already", key, t, other))
			}
			taken[t] = s.Name
		}
	}
	return errors.Join(errs...)
}

// goodName says whether a name has the form of the contract.
func goodName(s string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case c == '-' && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return true
}

func (s ScorerConfig) validate() error {
	var errs []error
	if !goodName(s.Name) {
		errs = append(errs, fmt.Errorf("name: must be lower-case letters, digits and \"-\", at most 63, not %q", s.Name))
	}
	_, builtin := builtins()[s.Name]
	switch _, err := parseTarget(s.Target); {
	case s.Target == "" && !builtin:
		errs = append(errs, errors.New("target: must be set"))
	case s.Target != "" && err != nil:
		errs = append(errs, fmt.Errorf("target: %w", err))
	}
	for _, t := range s.Types {
		if !goodName(t) {
			errs = append(errs, fmt.Errorf("types: %q is not the name of a scorer type", t))
		}
	}
	if s.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout: must not be below zero, not %v", s.Timeout))
	}
	if !slices.Contains([]FailurePolicy{"", Ignore, Fail}, s.FailurePolicy) {
		errs = append(errs, fmt.Errorf("failurePolicy: must be Ignore or Fail, not %q", s.FailurePolicy))
	}
	if !slices.Contains([]Transport{"", Auto, Stream, Unary}, s.Transport) {
		errs = append(errs, fmt.Errorf("transport: must be auto, stream or unary, not %q", s.Transport))
	}
	client := rpc.DefaultClientConfig()
	client.TLS = s.TLS
	return errors.Join(append(errs, client.Validate(), s.validateEmbedded())...)
}
