package httpproxy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
)

// Config says what the proxy serves and how patient it is.
type Config struct {
	// Address to listen on: "host:port" or "unix:///path". Empty: no HTTP front.
	// Default ":8080".
	Address string `yaml:"address"`
	// TLS is on when it names a certificate. Default: plain text, HTTP/1.1 and HTTP/2.
	TLS rpc.TLSConfig `yaml:"tls"`
	// Paths that are served: one that ends in a slash stands for all below it, another
	// for itself and all below it. Everything else is 404, because engines also have
	// paths that are not for clients. Default: the APIs under /v1/ and /v2/,
	// /inference/v1/generate, and the engines' tokenize, detokenize, score, rerank, pooling and classify.
	Paths []string `yaml:"paths"`
	// BlockedPaths are exceptions from Paths, read alike. Default: what loads and
	// unloads models and adapters, which would change one endpoint out of many.
	BlockedPaths []string `yaml:"blockedPaths"`
	// MaxRequests limits the requests that are under way at once; above it new ones are
	// 503. 0: no limit. Default 16384. Each takes a connection, two where it goes on to
	// an endpoint, and about 100 KiB besides its body.
	MaxRequests int `yaml:"maxRequests"`
	// MaxRequestBytes limits request bodies; larger ones are 413. Default 64 MiB.
	MaxRequestBytes int64 `yaml:"maxRequestBytes"`
	// MaxBufferedBytes limits the memory for request bodies of all requests together,
	// each of which is held until an endpoint has begun to answer; above it new bodies
	// are 503. 0: no limit. Default 1 GiB. Keep it well below the memory that the
	// process may have.
	MaxBufferedBytes int64 `yaml:"maxBufferedBytes"`
	// BodyTimeout is how long a client may be silent while its body is awaited.
	// Default 60 s.
	BodyTimeout conf.Duration `yaml:"bodyTimeout"`
	// ConnectTimeout limits connecting to an endpoint. Default 2 s.
	ConnectTimeout conf.Duration `yaml:"connectTimeout"`
	// FirstByteTimeout is how long an endpoint may take to the first byte of its
	// answer's body, queueing and prefill included. What other endpoints do before it does
	// not count: it has time-outs of its own. 0: for ever. Default 10 min.
	FirstByteTimeout conf.Duration `yaml:"firstByteTimeout"`
	// IdleTimeout is how long an endpoint may be silent within its answer, and a
	// client may take nothing of it. 0: for ever. Default 5 min.
	IdleTimeout conf.Duration `yaml:"idleTimeout"`
	// Retries is how many further endpoints are tried when one fails before its first
	// byte. Default 3.
	Retries int `yaml:"retries"`
	// RetryStatuses are the statuses that count as failing. Default 500, 502, 503,
	// 504. Leave out 500 if a request that makes one engine fail makes all fail.
	RetryStatuses []int `yaml:"retryStatuses"`
	// RetryTimeouts tries another endpoint after FirstByteTimeout too, instead of
	// answering 504. Default false: where all are slow, repeating makes it worse.
	RetryTimeouts bool `yaml:"retryTimeouts"`
	// KeepAlive is how long an unused connection to an endpoint is kept. It must be
	// shorter than the engines' own limit, which is 5 s for those on uvicorn.
	// Default 4 s.
	KeepAlive conf.Duration `yaml:"keepAlive"`
	// IdleConnections is how many unused connections are kept per endpoint. Default
	// 256.
	IdleConnections int `yaml:"idleConnections"`
	// DrainTimeout is how long requests may go on when the router stops. Default 20 s.
	DrainTimeout conf.Duration `yaml:"drainTimeout"`
	// Endpoints is how endpoints are connected to.
	Endpoints EndpointsConfig `yaml:"endpoints"`
	// Prompt limits what is read of bodies.
	Prompt prompt.Config `yaml:"prompt"`
}

// EndpointsConfig says how endpoints are connected to.
type EndpointsConfig struct {
	// TLS is for endpoints with the scheme https: how they are authenticated, and the
	// router to them. Default: by the system's authorities.
	TLS rpc.TLSConfig `yaml:"tls"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Address: ":8080",
		Paths:   []string{"/v1/", "/v2/", "/inference/v1/generate", "/tokenize", "/detokenize", "/score", "/rerank", "/pooling", "/classify"},
		BlockedPaths: []string{
			"/v1/load_lora_adapter", "/v1/unload_lora_adapter",
			"/v2/repository/", "/v2/systemsharedmemory/", "/v2/cudasharedmemory/", "/v2/trace", "/v2/logging",
		},
		MaxRequests:      16384,
		MaxRequestBytes:  64 << 20,
		MaxBufferedBytes: 1 << 30,
		BodyTimeout:      conf.Duration(time.Minute),
		ConnectTimeout:   conf.Duration(2 * time.Second),
		FirstByteTimeout: conf.Duration(10 * time.Minute),
		IdleTimeout:      conf.Duration(5 * time.Minute),
		Retries:          3,
		RetryStatuses:    []int{500, 502, 503, 504},
		KeepAlive:        conf.Duration(4 * time.Second),
		IdleConnections:  256,
		DrainTimeout:     conf.Duration(20 * time.Second),
		Prompt:           prompt.DefaultConfig(),
	}
}

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for key, paths := range map[string][]string{"paths": c.Paths, "blockedPaths": c.BlockedPaths} {
		for _, p := range paths {
			if !strings.HasPrefix(p, "/") {
				fault("%s: %q does not begin with a slash", key, p)
			}
		}
	}
	if c.MaxRequests < 0 {
		fault("maxRequests: %d is below 0", c.MaxRequests)
	}
	if c.MaxRequestBytes < 1 {
		fault("maxRequestBytes: %d is not above 0", c.MaxRequestBytes)
	}
	if c.MaxBufferedBytes != 0 && c.MaxBufferedBytes < c.MaxRequestBytes {
		fault("maxBufferedBytes: %d is less than one body of maxRequestBytes, %d", c.MaxBufferedBytes, c.MaxRequestBytes)
	}
	for _, d := range []struct {
		key  string
		d    conf.Duration
		zero bool
	}{
		{"bodyTimeout", c.BodyTimeout, false}, {"connectTimeout", c.ConnectTimeout, false},
		{"firstByteTimeout", c.FirstByteTimeout, true}, {"idleTimeout", c.IdleTimeout, true},
		{"keepAlive", c.KeepAlive, false}, {"drainTimeout", c.DrainTimeout, true},
	} {
		if d.d < 0 || d.d == 0 && !d.zero {
			fault("%s: %v is not above 0", d.key, d.d)
		}
	}
	if c.Retries < 0 || c.Retries > 100 {
		fault("retries: %d is not within 0 and 100", c.Retries)
	}
	for _, s := range c.RetryStatuses {
		if s < 500 || s > 599 {
			fault("retryStatuses: %d is not a status of a server's failure, 500 to 599", s)
		}
	}
	if c.IdleConnections < 1 {
		fault("idleConnections: %d is not above 0", c.IdleConnections)
	}
	if err := c.TLS.ValidateServer(); err != nil {
		faults = append(faults, err)
	}
	if err := conf.Prefix("endpoints", c.Endpoints.TLS.ValidateClient()); err != nil {
		faults = append(faults, err)
	}
	if err := c.Prompt.Validate(); err != nil {
		fault("prompt.%w", err)
	}
	return errors.Join(faults...)
}
