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
	// BlockedPaths are paths that are answered with 404 here, whatever the proxy's routes
	// let through: each is a path with all that is below it. Default: what changes an
	// engine and is not for clients, such as /flush_cache.
	BlockedPaths []string `yaml:"blockedPaths"`
	// MaxRequestBytes limits request bodies that are read; larger ones are 413. Default
	// 64 MiB.
	MaxRequestBytes int64 `yaml:"maxRequestBytes"`
	// MaxBufferedBytes limits the memory for request bodies of all requests together,
	// each of which is held until it is decided on and sent back; above it bodies are
	// 503. 0: no limit. Default 1 GiB. Keep it well below the memory that the process
	// may have.
	MaxBufferedBytes int64 `yaml:"maxBufferedBytes"`
	// DecisionTimeout is how long a decision may take once the request is known: scorers
	// that have not answered by then are decided without. Keep it well below the proxy's message_timeout,
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
	// IgnoreSubset picks among all endpoints, whatever subset the proxy allows. Default
	// false.
	IgnoreSubset bool `yaml:"ignoreSubset"`
	// DestinationHeader is the header, and the key in the metadata, that tells the proxy
	// where to go. Default x-gateway-destination-endpoint.
	DestinationHeader string `yaml:"destinationHeader"`
	// DestinationNamespace is the metadata namespace of the destination. Default envoy.lb.
	DestinationNamespace string `yaml:"destinationNamespace"`
	// DrainTimeout is how long streams may go on when the router stops: with response
	// bodies in FULL_DUPLEX_STREAMED, and trailers, an answer that is under way is lost
	// with its stream. Streams that the proxy can do without end at once. Default 2 min.
	// Give the process longer than that before it is killed.
	DrainTimeout conf.Duration `yaml:"drainTimeout"`
	// Prompt limits what is read of bodies.
	Prompt prompt.Config `yaml:"prompt"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Address:       ":9002",
		HealthAddress: ":9003",
		SecureServing: true,
		BlockedPaths: []string{
			"/flush_cache", "/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache", "/sleep", "/wake_up", "/pause", "/resume", "/collective_rpc", "/scale_elastic_ep",
			"/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/load_lora_adapter", "/unload_lora_adapter",
			"/start_profile", "/stop_profile", "/abort_request", "/release_memory_occupation", "/resume_memory_occupation", "/pause_generation", "/continue_generation",
			"/update_weights_from_disk", "/update_weights_from_tensor", "/update_weights_from_distributed", "/init_weights_update_group", "/set_internal_state", "/configure_logging",
			"/v2/repository/",
		},
		MaxRequestBytes:      64 << 20,
		MaxBufferedBytes:     1 << 30,
		DecisionTimeout:      conf.Duration(100 * time.Millisecond),
		AssumedMode:          wire.FullDuplex.String(),
		FailureStatuses:      []int{500, 502, 503, 504},
		Fallbacks:            -1,
		DestinationHeader:    "x-gateway-destination-endpoint",
		DestinationNamespace: "envoy.lb",
		DrainTimeout:         conf.Duration(2 * time.Minute),
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
	if c.MaxBufferedBytes != 0 && c.MaxBufferedBytes < c.MaxRequestBytes {
		fault("maxBufferedBytes: %d is less than one body of maxRequestBytes, %d", c.MaxBufferedBytes, c.MaxRequestBytes)
	}
	if c.DecisionTimeout <= 0 {
		fault("decisionTimeout: %v is not above 0", c.DecisionTimeout)
	}
	if m, ok := wire.ParseMode(c.AssumedMode); !ok || m == wire.GRPC {
		fault("assumedMode: %q is none of NONE, STREAMED, BUFFERED, BUFFERED_PARTIAL, FULL_DUPLEX_STREAMED", c.AssumedMode)
	}
	if c.DrainTimeout < 0 {
		fault("drainTimeout: %v is below 0", c.DrainTimeout)
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
	for _, b := range c.BlockedPaths {
		if !strings.HasPrefix(b, "/") {
			fault("blockedPaths: %q does not begin with a slash", b)
		}
	}
	if c.DestinationNamespace == "" {
		fault("destinationNamespace: must not be empty")
	}
	return errors.Join(append(faults, conf.Prefix("prompt", c.Prompt.Validate()))...)
}
