package extproc

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
)

// Config says how the front talks to proxies.
type Config struct {
	// Address to listen on: "host:port" or "unix:///path". Empty: no ext_proc front.
	// Default ":9002".
	Address string `yaml:"address"`
	// HealthAddress is where grpc.health.v1 is served in plain text. Empty: nowhere.
	// Default ":9003".
	HealthAddress string `yaml:"healthAddress"`
	// SecureServing is TLS, with a certificate that is made at the start unless there
	// is a CertPath. Default true: proxies expect it, and do not check it.
	SecureServing bool `yaml:"secureServing"`
	// CertPath is a directory with tls.crt and tls.key, read again when they change.
	CertPath string `yaml:"certPath"`
	// MaxRequestBytes limits request bodies that are read; larger ones are 413. Default
	// 64 MiB.
	MaxRequestBytes int64 `yaml:"maxRequestBytes"`
	// DecisionTimeout is how long a decision may take once the request is known; then
	// one is made without scorers. Keep it well below the proxy's message_timeout,
	// 200 ms by default. Default 100 ms.
	DecisionTimeout conf.Duration `yaml:"decisionTimeout"`
	// AssumedMode is the mode of bodies, as Envoy spells it, of proxies that do not tell
	// theirs. Default FULL_DUPLEX_STREAMED, which the endpoint picker protocol demands.
	AssumedMode string `yaml:"assumedMode"`
	// FailureStatuses are the statuses of answers that count as failures of the
	// endpoint. Default 500, 502, 503, 504. Leave out 500 if a request that makes one
	// engine fail makes all fail.
	FailureStatuses []int `yaml:"failureStatuses"`
	// Fallbacks is how many endpoints are named after the pick, best first, for proxies
	// that retry. Default -1: as many as the picker's maxNumOfEndpoints asks for, which
	// is none by default: an original_dst cluster cannot read a list.
	Fallbacks int `yaml:"fallbacks"`
	// DestinationHeader is the header, and the key in the metadata, that tells the proxy
	// where to go. Default x-gateway-destination-endpoint.
	DestinationHeader string `yaml:"destinationHeader"`
	// DestinationNamespace is the metadata namespace of the destination. Default envoy.lb.
	DestinationNamespace string `yaml:"destinationNamespace"`
	// Prompt limits what is read of bodies.
	Prompt prompt.Config `yaml:"prompt"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Address:              ":9002",
		HealthAddress:        ":9003",
		SecureServing:        true,
		MaxRequestBytes:      64 << 20,
		DecisionTimeout:      conf.Duration(100 * time.Millisecond),
		AssumedMode:          wire.FullDuplex.String(),
		FailureStatuses:      []int{500, 502, 503, 504},
		Fallbacks:            -1,
		DestinationHeader:    "x-gateway-destination-endpoint",
		DestinationNamespace: "envoy.lb",
		Prompt:               prompt.DefaultConfig(),
	}
}

// maxRequestBytes is the most that MaxRequestBytes can be: gRPC counts messages, which
// may hold four times as much, in 32 bits.
const maxRequestBytes = 256 << 20

// Validate returns all that is wrong with the configuration, each fault beginning with
// its key.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.MaxRequestBytes < 1 || c.MaxRequestBytes > maxRequestBytes {
		fault("maxRequestBytes: %d is not within 1 and %d", c.MaxRequestBytes, maxRequestBytes)
	}
	if c.DecisionTimeout <= 0 {
		fault("decisionTimeout: %v is not above 0", c.DecisionTimeout)
	}
	if m, ok := wire.ParseMode(c.AssumedMode); !ok || m == wire.GRPC {
		fault("assumedMode: %q is none of NONE, STREAMED, BUFFERED, BUFFERED_PARTIAL, FULL_DUPLEX_STREAMED", c.AssumedMode)
	}
	for _, s := range c.FailureStatuses {
		if s < 500 || s > 599 {
			fault("failureStatuses: %d is not a status of a server's failure, 500 to 599", s)
		}
	}
	if c.Fallbacks < -1 {
		fault("fallbacks: %d is below -1", c.Fallbacks)
	}
	if c.CertPath != "" && !c.SecureServing {
		fault("certPath: is of no use without secureServing")
	}
	if h := c.DestinationHeader; h == "" || strings.ToLower(h) != h || strings.ContainsAny(h, " :\r\n") {
		fault("destinationHeader: %q is not the name of a header in lower case", h)
	}
	if c.DestinationNamespace == "" {
		fault("destinationNamespace: must not be empty")
	}
	return errors.Join(append(faults, conf.Prefix("prompt", c.Prompt.Validate()))...)
}
