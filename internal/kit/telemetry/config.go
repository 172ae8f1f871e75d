package telemetry

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
)

// Config is what every service lets its operator set. Services embed it with `yaml:",inline"`.
type Config struct {
	Log     LogConfig     `yaml:"log"`
	Admin   AdminConfig   `yaml:"admin"`
	Tracing TracingConfig `yaml:"tracing"`
}

// LogConfig is the log on stderr.
type LogConfig struct {
	// Level is the lowest level written: debug, info, warn or error. Default info. Debug writes per request.
	Level string `yaml:"level"`
	// Format is one of text (default) and json (for log pipelines).
	Format string `yaml:"format"`
}

// AdminConfig is the admin HTTP server.
type AdminConfig struct {
	// Address is "host:port". Default ":9090". Empty turns the admin server off.
	Address string `yaml:"address"`
	// Pprof serves /debug/pprof/. Default: only when the server is bound to a loopback address, because profiles
	// show memory and cost CPU.
	Pprof *bool `yaml:"pprof"`
}

// TracingConfig is OpenTelemetry export.
type TracingConfig struct {
	// SampleRatio is the share of requests traced when the caller has not decided, 0 to 1. Default 0.01.
	SampleRatio float64 `yaml:"sampleRatio"`
	// OTLPEndpoint receives traces and metrics over OTLP/gRPC: "host:port" or "http://host:port" in plain text,
	// "https://host:port" with TLS. Default: what the environment variable OTEL_EXPORTER_OTLP_ENDPOINT says, and when
	// that is empty too, nothing is traced or exported. The exporters honour the other OTEL_EXPORTER_OTLP_ variables.
	OTLPEndpoint string `yaml:"otlpEndpoint"`
}

// DefaultConfig returns the defaults named above.
func DefaultConfig() Config {
	return Config{
		Log:     LogConfig{Level: "info", Format: "text"},
		Admin:   AdminConfig{Address: ":9090"},
		Tracing: TracingConfig{SampleRatio: 0.01},
	}
}

// Validate returns all faults, each beginning with its key.
func (c Config) Validate() error {
	var errs []error
	if _, ok := level(c.Log.Level); !ok {
		errs = append(errs, fmt.Errorf("log.level: must be debug, info, warn or error, not %q", c.Log.Level))
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		errs = append(errs, fmt.Errorf("log.format: must be text or json, not %q", c.Log.Format))
	}
	if c.Admin.Address != "" {
		if _, _, err := net.SplitHostPort(c.Admin.Address); err != nil {
			errs = append(errs, fmt.Errorf("admin.address: must be HOST:PORT or empty (off), not %q", c.Admin.Address))
		}
	}
	if r := c.Tracing.SampleRatio; !(r >= 0 && r <= 1) { // NaN is refused too
		errs = append(errs, fmt.Errorf("tracing.sampleRatio: must be from 0 to 1, not %v", r))
	}
	if e := c.Tracing.OTLPEndpoint; e != "" {
		if _, err := endpointURL(e); err != nil {
			errs = append(errs, fmt.Errorf("tracing.otlpEndpoint: %w", err))
		}
	}
	return errors.Join(errs...)
}

func level(name string) (slog.Level, bool) {
	switch strings.ToLower(name) {
	case "debug":
		return slog.LevelDebug, true
	case "info":
		return slog.LevelInfo, true
	case "warn":
		return slog.LevelWarn, true
	case "error":
		return slog.LevelError, true
	}
	return 0, false
}

// endpointURL turns an OTLP endpoint into the URL that the exporters take.
func endpointURL(endpoint string) (string, error) {
	bad := fmt.Errorf("must be HOST:PORT, http://HOST:PORT or https://HOST:PORT, not %q", endpoint)
	if !strings.Contains(endpoint, "://") {
		if _, _, err := net.SplitHostPort(endpoint); err != nil {
			return "", bad
		}
		endpoint = "http://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", bad
	}
	return endpoint, nil
}
