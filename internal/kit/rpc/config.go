package rpc

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

const unixScheme = "unix://"

// DefaultMaxMessageBytes bounds a message in either direction, 16 MiB: a request of 4,096 listed candidates with labels
// and 8,192 block hashes is about 2 MiB.
const DefaultMaxMessageBytes = 16 << 20

// ServerConfig is one gRPC listener.
type ServerConfig struct {
	// Address is "host:port" (without a host: all interfaces) or "unix:///path".
	Address string `yaml:"address"`
	// TLS is on when it names a certificate. Default: plain text.
	TLS TLSConfig `yaml:"tls"`
	// MaxMessageBytes bounds each message received or sent, in bytes. Default 16 MiB.
	MaxMessageBytes int `yaml:"maxMessageBytes"`
	// DrainTimeout is how long open calls may go on after the stop has begun; then they are cut off. Default 10 s.
	DrainTimeout conf.Duration `yaml:"drainTimeout"`
}

// DefaultDrainTimeout is enough for any call but streams that last as long as what they tell of.
const DefaultDrainTimeout = 10 * time.Second

// DefaultServerConfig returns a listener at address, in plain text.
func DefaultServerConfig(address string) ServerConfig {
	return ServerConfig{Address: address, MaxMessageBytes: DefaultMaxMessageBytes, DrainTimeout: conf.Duration(DefaultDrainTimeout)}
}

// Validate returns all faults, each beginning with its key below the listener's section (conf.Prefix completes it).
func (c ServerConfig) Validate() error {
	errs := []error{checkSize(c.MaxMessageBytes), c.TLS.ValidateServer()}
	if c.DrainTimeout < 0 {
		errs = append(errs, fmt.Errorf("drainTimeout: must not be below zero, not %v", c.DrainTimeout))
	}
	if path, ok := strings.CutPrefix(c.Address, unixScheme); ok {
		if !filepath.IsAbs(path) {
			errs = append(errs, fmt.Errorf("address: a socket must be unix:///PATH, not %q", c.Address))
		}
	} else if _, _, err := net.SplitHostPort(c.Address); err != nil {
		errs = append(errs, fmt.Errorf("address: must be HOST:PORT or unix:///PATH, not %q", c.Address))
	}
	return errors.Join(errs...)
}

// ClientConfig is how to connect to a gRPC server; where to is said in Dial.
type ClientConfig struct {
	// TLS is on when any of caFile, certFile, serverName or insecureSkipVerify is set. Default: plain text.
	TLS TLSConfig `yaml:"tls"`
	// MaxMessageBytes bounds each message received or sent, in bytes. Default 16 MiB.
	MaxMessageBytes int `yaml:"maxMessageBytes"`
}

// DefaultClientConfig returns a connection in plain text.
func DefaultClientConfig() ClientConfig {
	return ClientConfig{MaxMessageBytes: DefaultMaxMessageBytes}
}

// Validate returns all faults, each beginning with its key below the connection's section.
func (c ClientConfig) Validate() error {
	return errors.Join(checkSize(c.MaxMessageBytes), c.TLS.ValidateClient())
}

func checkSize(n int) error {
	const least = 4 << 10
	if n < least {
		return fmt.Errorf("maxMessageBytes: must be at least %d, not %d", least, n)
	}
	return nil
}
