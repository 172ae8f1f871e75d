package proxy

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/services/disagg-sidecar/internal/allow"
)

// Config is what the proxy does.
type Config struct {
	// Listen is where requests come in.
	Listen ListenConfig `yaml:"listen"`
	// Decode is the model server beside the sidecar.
	Decode DecodeConfig `yaml:"decode"`
	// Prefill is how prompts are prefilled elsewhere.
	Prefill PrefillConfig `yaml:"prefill"`
	// Encode is how media are encoded elsewhere.
	Encode EncodeConfig `yaml:"encode"`
	// Allow is whom requests may name.
	Allow AllowConfig `yaml:"allow"`
	// ConnectTimeout limits connecting to a model server. Default 2 s.
	ConnectTimeout conf.Duration `yaml:"connectTimeout"`
	// KeepAlive is how long an unused connection to a model server is kept. It must be
	// shorter than the engines' own limit, which is 5 s for those on uvicorn. Default 4 s.
	KeepAlive conf.Duration `yaml:"keepAlive"`
	// IdleConnections is how many unused connections are kept per model server. Default 1024.
	IdleConnections int `yaml:"idleConnections"`
	// MaxRequestBytes limits the bodies of requests to generate, which are held whole, with
	// allow.pool false only if they are prefilled elsewhere; larger ones are 413. Default
	// 64 MiB.
	MaxRequestBytes int64 `yaml:"maxRequestBytes"`
	// MaxBufferedBytes limits them all together; above it new ones are 503. Default 1 GiB.
	// Keep it well below the memory that the process may have.
	MaxBufferedBytes int64 `yaml:"maxBufferedBytes"`
	// BodyTimeout is how long a client may be silent while such a body is awaited.
	// Default 60 s.
	BodyTimeout conf.Duration `yaml:"bodyTimeout"`
	// DrainTimeout is how long requests may go on when the sidecar stops. Default 60 s.
	DrainTimeout conf.Duration `yaml:"drainTimeout"`
	// DrainDelay is how long it goes on taking requests after it has said that it is not
	// ready. Default 0.
	DrainDelay conf.Duration `yaml:"drainDelay"`
}

// ListenConfig is where requests come in.
type ListenConfig struct {
	// Address is "host:port", of the first rank; each further one has the next port.
	// Default ":8000".
	Address string `yaml:"address"`
	// TLS is on when it names a certificate.
	TLS rpc.TLSConfig `yaml:"tls"`
	// SelfSigned is TLS with a certificate made at the start, which nobody can check.
	// Default false.
	SelfSigned bool `yaml:"selfSigned"`
}

// DecodeConfig is the model server beside the sidecar.
type DecodeConfig struct {
	// Address is "host:port", of the first data-parallel rank; each further one has the
	// next port. Default "127.0.0.1:8200".
	Address string `yaml:"address"`
	// Scheme is http or https. Default http.
	Scheme string `yaml:"scheme"`
	// TLS is for https.
	TLS rpc.TLSConfig `yaml:"tls"`
	// Ranks is how many data-parallel ranks there are. Default 1.
	Ranks int `yaml:"ranks"`
	// PodIP is the host under which routers know the ranks, for x-data-parallel-host-port.
	// Default: the environment variable POD_IP; if that is empty too any host.
	PodIP string `yaml:"podIP"`
	// Timeout is how long the head of the answer may take after a prefill leg. 0: for
	// ever. With chunkSize it is the time of a whole round. Default 0.
	Timeout conf.Duration `yaml:"timeout"`
	// ChunkSize is how many tokens of a chat's answer are decoded at once: more are decoded in
	// rounds, each a request of its own. 0: answers are decoded as they are asked for.
	// Default 0.
	ChunkSize int `yaml:"chunkSize"`
}

// PrefillConfig is how prompts are prefilled elsewhere.
type PrefillConfig struct {
	// Connector is what the engines speak: nixlv2, sglang, shared-storage, mooncake or
	// offloading. Default nixlv2.
	Connector string `yaml:"connector"`
	// Scheme is http or https. Default http.
	Scheme string `yaml:"scheme"`
	// TLS is for https.
	TLS rpc.TLSConfig `yaml:"tls"`
	// BootstrapPort is where prefill servers listen for decoders, with the connectors sglang
	// and mooncake. Default 8998.
	BootstrapPort uint16 `yaml:"bootstrapPort"`
	// P2P is for the connector offloading, and for pulling what other engines have cached.
	P2P P2PConfig `yaml:"p2p"`
	// MoRIIO has prefill engines write to decode engines, in place of these reading.
	MoRIIO MoRIIOConfig `yaml:"moriio"`
	// Sampling begins with a random one of the endpoints that the header names, instead of
	// the first. Default false.
	Sampling bool `yaml:"sampling"`
	// OnFailure is what to do when a prefill leg fails, in order: RetryOther (try again: the
	// next endpoint that the header names, or the same one after a failure that may pass),
	// LocalPrefill (the model server beside prefills too), Fail. Default RetryOther, Fail.
	OnFailure []string `yaml:"onFailure"`
	// Retries is how often RetryOther tries. Default 0.
	Retries int `yaml:"retries"`
	// Backoff is waited before the same endpoint is tried again. Default 200 ms.
	Backoff conf.Duration `yaml:"backoff"`
	// Timeout is how long one leg may take. 0: for ever. Default 60 s.
	Timeout conf.Duration `yaml:"timeout"`
	// Budget is how long all legs of one request may take together. 0: for ever. Default 90 s.
	Budget conf.Duration `yaml:"budget"`
}

// EncodeConfig is how media are encoded elsewhere.
type EncodeConfig struct {
	// Enabled calls those whom the header x-encoder-hosts-ports names, one after the other
	// for each image, audio or video of a chat request. Default false: the model server
	// beside encodes.
	Enabled bool `yaml:"enabled"`
	// Connector is how what was encoded gets to the engines that prefill: ec-example (by a
	// storage that they share) or ec-nixl (encoders answer ec_transfer_params, which the
	// request is given; one that does not has failed). Default ec-example.
	Connector string `yaml:"connector"`
	// Scheme is http or https. Default http.
	Scheme string `yaml:"scheme"`
	// TLS is for https.
	TLS rpc.TLSConfig `yaml:"tls"`
	// OnFailure is as that of prefill, with LocalEncode for LocalPrefill: with ec-nixl what
	// others have encoded is used all the same. Default Fail.
	OnFailure []string `yaml:"onFailure"`
	// Timeout is how long one call may take. 0: for ever. Default 30 s.
	Timeout conf.Duration `yaml:"timeout"`
	// Budget is how long all of one request may take together. 0: for ever. Default 45 s.
	Budget conf.Duration `yaml:"budget"`
}

// AllowConfig is whom requests may name.
type AllowConfig struct {
	// Pool allows the pool's endpoints, by host and port, and nobody else. With false the
	// header may name any address: only where nobody but the router can reach the sidecar.
	// Default true.
	Pool bool `yaml:"pool"`
	// Also are further addresses, "host:port", that may be called. Default: none.
	Also []string `yaml:"also"`
}

// Ways by which what was encoded gets to who needs it.
const (
	ecExample = "ec-example"
	ecNIXL    = "ec-nixl"
)

// Names of actions.
const (
	retryOther   = "RetryOther"
	localPrefill = "LocalPrefill"
	localEncode  = "LocalEncode"
	fail         = "Fail"
)

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Listen: ListenConfig{Address: ":8000"},
		Decode: DecodeConfig{Address: "127.0.0.1:8200", Scheme: "http", Ranks: 1},
		Prefill: PrefillConfig{
			Connector: string(disagg.NIXL), Scheme: "http", BootstrapPort: disagg.DefaultBootstrapPort, P2P: P2PConfig{Port: disagg.DefaultP2PPort}, MoRIIO: defaultMoRIIO(), OnFailure: []string{retryOther, fail},
			Backoff: conf.Duration(200 * time.Millisecond), Timeout: conf.Duration(time.Minute), Budget: conf.Duration(90 * time.Second),
		},
		Encode:           EncodeConfig{Connector: ecExample, Scheme: "http", OnFailure: []string{fail}, Timeout: conf.Duration(30 * time.Second), Budget: conf.Duration(45 * time.Second)},
		Allow:            AllowConfig{Pool: true},
		ConnectTimeout:   conf.Duration(2 * time.Second),
		KeepAlive:        conf.Duration(4 * time.Second),
		IdleConnections:  1024,
		MaxRequestBytes:  64 << 20,
		MaxBufferedBytes: 1 << 30,
		BodyTimeout:      conf.Duration(time.Minute),
		DrainTimeout:     conf.Duration(time.Minute),
	}
}

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for key, address := range map[string]string{"listen.address": c.Listen.Address, "decode.address": c.Decode.Address} {
		if _, err := ranked(address, max(0, c.Decode.Ranks-1)); err != nil {
			fault("%s: %w", key, err)
		}
	}
	if c.Listen.SelfSigned && c.Listen.TLS.Enabled() {
		fault("listen.selfSigned: there is a certificate, listen.tls.certFile; set one of both")
	}
	for key, scheme := range map[string]string{"decode.scheme": c.Decode.Scheme, "prefill.scheme": c.Prefill.Scheme, "encode.scheme": c.Encode.Scheme} {
		if scheme != "http" && scheme != "https" {
			fault("%s: %q is neither http nor https", key, scheme)
		}
	}
	if c.Decode.Ranks < 1 || c.Decode.Ranks > 64 {
		fault("decode.ranks: %d is not within 1 and 64", c.Decode.Ranks)
	}
	if c.Decode.ChunkSize < 0 || c.Decode.ChunkSize > 1<<20 {
		fault("decode.chunkSize: %d is not within 0 and %d", c.Decode.ChunkSize, 1<<20)
	}
	if c.Encode.Connector != ecExample && c.Encode.Connector != ecNIXL {
		fault("encode.connector: %q is neither %s nor %s", c.Encode.Connector, ecExample, ecNIXL)
	}
	known := false
	for _, k := range disagg.Connectors() {
		known = known || c.Prefill.Connector == string(k)
	}
	if !known {
		fault("prefill.connector: %q is none of %v", c.Prefill.Connector, disagg.Connectors())
	}
	if _, bad := actions(c.Prefill.OnFailure, localPrefill); bad != "" {
		fault("prefill.onFailure: %q is none of %s, %s, %s", bad, retryOther, localPrefill, fail)
	}
	if _, bad := actions(c.Encode.OnFailure, localEncode); bad != "" {
		fault("encode.onFailure: %q is none of %s, %s, %s", bad, retryOther, localEncode, fail)
	}
	if c.Prefill.Retries < 0 || c.Prefill.Retries > 100 {
		fault("prefill.retries: %d is not within 0 and 100", c.Prefill.Retries)
	}
	for _, a := range c.Allow.Also {
		if _, ok := allow.Parse(a); !ok {
			fault("allow.also: %q is not host:port", a)
		}
	}
	if c.MaxRequestBytes < 1 {
		fault("maxRequestBytes: %d is not above 0", c.MaxRequestBytes)
	}
	if c.MaxBufferedBytes < c.MaxRequestBytes {
		fault("maxBufferedBytes: %d is less than one body of maxRequestBytes, %d", c.MaxBufferedBytes, c.MaxRequestBytes)
	}
	if c.IdleConnections < 1 {
		fault("idleConnections: %d is not above 0", c.IdleConnections)
	}
	faults = append(faults, c.Prefill.transfers(c.Decode))
	faults = append(faults, c.times()...)
	return errors.Join(append(faults, conf.Prefix("listen", c.Listen.TLS.ValidateServer()),
		conf.Prefix("decode", c.Decode.TLS.ValidateClient()), conf.Prefix("prefill", c.Prefill.TLS.ValidateClient()),
		conf.Prefix("encode", c.Encode.TLS.ValidateClient()))...)
}

func (c Config) times() (faults []error) {
	for _, d := range []struct {
		key  string
		d    conf.Duration
		zero bool
	}{
		{"connectTimeout", c.ConnectTimeout, false}, {"keepAlive", c.KeepAlive, false}, {"bodyTimeout", c.BodyTimeout, false},
		{"drainTimeout", c.DrainTimeout, true}, {"drainDelay", c.DrainDelay, true}, {"decode.timeout", c.Decode.Timeout, true},
		{"prefill.backoff", c.Prefill.Backoff, true}, {"prefill.timeout", c.Prefill.Timeout, true}, {"prefill.budget", c.Prefill.Budget, true},
		{"encode.timeout", c.Encode.Timeout, true}, {"encode.budget", c.Encode.Budget, true},
	} {
		if d.d < 0 || d.d == 0 && !d.zero {
			faults = append(faults, fmt.Errorf("%s: %v is not above 0", d.key, d.d))
		}
	}
	return faults
}

// actions returns what names stand for, local being that of the engine beside; or the
// first name that stands for nothing.
func actions(names []string, local string) (out []disagg.Action, bad string) {
	for _, name := range names {
		switch name {
		case retryOther:
			out = append(out, disagg.RetryOther)
		case local:
			out = append(out, disagg.LocalPrefill)
		case fail:
			out = append(out, disagg.Fail)
		default:
			return nil, name
		}
	}
	return out, ""
}

// ranked returns the address of a rank, of which that of rank 0 is given.
func ranked(address string, rank int) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("%q is not host:port", address)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 0 || n+rank > 65535 {
		return "", fmt.Errorf("%q has no usable port", address)
	}
	if n == 0 { // any free one
		rank = 0
	}
	return net.JoinHostPort(host, fmt.Sprint(n+rank)), nil
}
