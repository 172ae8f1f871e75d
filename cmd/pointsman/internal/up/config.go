package up

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/pointsman/pointsman/internal/kit/run"
)

// Config is what can be chosen.
type Config struct {
	// Servers is the number of simulated model servers, 1 to 64.
	Servers int
	// Prefill is how many of them, the last ones, only prefill prompts for the others, which
	// decode. 0: all do both.
	Prefill int
	// Routers is the number of routers, 1 to 8. The first has the given addresses.
	Routers int
	// HTTP and GRPC are the first router's addresses.
	HTTP, GRPC string
	// ExtProc is the first router's address for Envoy and gateways. Empty: none.
	ExtProc string
	// Admin is the first router's admin address: metrics, health, profiles.
	Admin string
	// ConfigFile and ConfigText are the EndpointPickerConfig; at most one. Neither:
	// the built-in default, or, with Prefill, one with a profile for each role.
	ConfigFile, ConfigText string
	// RouterConfig is the router's own settings file. A pool that it names is everybody's.
	RouterConfig string
	// Embedded has each router ask the scorers within its own process, as pointsman serve
	// does, instead of services of their own.
	Embedded bool
	// Model is the simulated model's name.
	Model string
	// Speed is how many times faster than a real model server the simulated ones
	// work, above 0.
	Speed float64
	// LogLevel is debug, info, warn or error.
	LogLevel string
	// Quiet leaves out the table of decisions.
	Quiet bool
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Servers: 4, Routers: 1, HTTP: "127.0.0.1:8080", GRPC: "127.0.0.1:9004", Admin: "127.0.0.1:9090",
		Model: "sim-model", Speed: 1, LogLevel: "warn",
	}
}

// Validate returns all faults.
func (c Config) Validate() error {
	var errs []error
	if c.Servers < 1 || c.Servers > 64 {
		errs = append(errs, fmt.Errorf("--servers %d: want 1 to 64", c.Servers))
	}
	if c.Prefill < 0 || c.Prefill > 0 && c.Prefill >= c.Servers {
		errs = append(errs, fmt.Errorf("--prefill %d: want fewer than the %d of --servers, so that some decode", c.Prefill, c.Servers))
	}
	if c.Routers < 1 || c.Routers > 8 {
		errs = append(errs, fmt.Errorf("--routers %d: want 1 to 8", c.Routers))
	}
	if c.ConfigFile != "" && c.ConfigText != "" {
		errs = append(errs, errors.New("--configFile and --configText are both given: give one"))
	}
	if !(c.Speed > 0) || c.Speed > 1000 {
		errs = append(errs, fmt.Errorf("--speed %g: want above 0, at most 1000", c.Speed))
	}
	return errors.Join(errs...)
}

func parse(args []string, stdout io.Writer) (Config, error) {
	c := DefaultConfig()
	fs := flag.NewFlagSet("up", flag.ContinueOnError)
	fs.IntVar(&c.Servers, "servers", c.Servers, "`number` of simulated model servers")
	fs.IntVar(&c.Prefill, "prefill", 0, "how many of the `servers` only prefill prompts, which the others decode")
	fs.IntVar(&c.Routers, "routers", c.Routers, "`number` of routers; further ones listen on free ports")
	fs.StringVar(&c.HTTP, "http", c.HTTP, "`address` of the first router's HTTP front")
	fs.StringVar(&c.GRPC, "grpc", c.GRPC, "`address` of the first router's gRPC front")
	fs.StringVar(&c.ExtProc, "extProc", "", "`address` of the first router's ext_proc front, over TLS; none by default")
	fs.StringVar(&c.Admin, "admin", c.Admin, "`address` of the first router's metrics, health and profiles")
	fs.StringVar(&c.ConfigFile, "configFile", "", "EndpointPickerConfig `file`")
	fs.StringVar(&c.ConfigText, "configText", "", "EndpointPickerConfig `text`")
	fs.StringVar(&c.RouterConfig, "config", "", "`file` with the router's own settings; a pool that it names is that of all that comes up")
	fs.BoolVar(&c.Embedded, "embedded", false, "scorers within the routers, as pointsman serve has them, instead of services of their own")
	fs.StringVar(&c.Model, "model", c.Model, "`name` of the simulated model")
	fs.Float64Var(&c.Speed, "speed", c.Speed, "how many `times` faster than a real model server the simulated ones are")
	fs.StringVar(&c.LogLevel, "log", c.LogLevel, "log `level`: debug, info, warn, error")
	fs.BoolVar(&c.Quiet, "quiet", false, "do not print decisions")
	fs.SetOutput(io.Discard)
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(stdout)
		fmt.Fprint(stdout, "usage: pointsman up [flags]\n\nFlags:\n")
		fs.PrintDefaults()
		return c, err
	case err != nil:
		return c, run.UsageError{Err: fmt.Errorf("up: %w (see pointsman up --help)", err)}
	case fs.NArg() > 0:
		return c, run.UsageError{Err: fmt.Errorf("up: unexpected argument %q", fs.Arg(0))}
	}
	if err := c.Validate(); err != nil {
		return c, run.UsageError{Err: err}
	}
	return c, nil
}
