package bus

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/rpc"
)

// Config says where NATS is and who we are to it.
type Config struct {
	// URL of the server, or several separated by commas: "nats://host:4222", or
	// with TLS "tls://host:4222". Default "nats://127.0.0.1:4222".
	URL string `yaml:"url"`
	// User and Password, if the server asks for them. Default none.
	User     string      `yaml:"user"`
	Password conf.Secret `yaml:"password"`
	// CredsFile holds a JWT and its key, in place of User. Read anew at every
	// connection. Default none.
	CredsFile string `yaml:"credsFile"`
	// TLS to the server; the files are read anew at every connection. Default: only
	// what the URL asks for.
	TLS rpc.TLSConfig `yaml:"tls"`
	// PendingMessages is how many messages of one subject may wait to be handled;
	// further ones are lost, which is counted and leads to a resynchronisation.
	// Default 65536. Raise it only if pointsman_bus_errors_total shows
	// kind="slow_consumer".
	PendingMessages int `yaml:"pendingMessages"`
	// PendingBytes is the same limit in bytes. Default 64 MiB.
	PendingBytes int `yaml:"pendingBytes"`
}

// DefaultConfig returns a NATS server on this host without authentication.
func DefaultConfig() Config {
	return Config{
		URL:             "nats://127.0.0.1:4222",
		PendingMessages: 65536,
		PendingBytes:    64 << 20,
	}
}

// Validate returns all faults at once. It reads no file.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, part := range strings.Split(c.URL, ",") {
		// The URL may hold a password, so faults do not repeat it.
		u, err := url.Parse(strings.TrimSpace(part))
		switch {
		case err != nil || u.Host == "" || u.Hostname() == "":
			fault("url: want nats://host:port or tls://host:port, several separated by commas")
		case u.Scheme != "nats" && u.Scheme != "tls" && u.Scheme != "ws" && u.Scheme != "wss":
			fault("url: scheme %q is none of nats, tls, ws, wss", u.Scheme)
		}
	}
	if c.CredsFile != "" && c.User != "" {
		fault("credsFile: cannot be combined with user: keep one")
	}
	if c.Password != "" && c.User == "" {
		fault("user: missing, although password is set")
	}
	faults = append(faults, c.TLS.ValidateClient())
	if c.PendingMessages <= 0 {
		fault("pendingMessages: %d is not positive", c.PendingMessages)
	}
	if c.PendingBytes <= 0 {
		fault("pendingBytes: %d is not positive", c.PendingBytes)
	}
	return errors.Join(faults...)
}

// location is the URL without user and password, for people.
func (c Config) location() string {
	parts := strings.Split(c.URL, ",")
	for i, part := range parts {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil {
			return "an unreadable URL"
		}
		u.User = nil
		parts[i] = u.String()
	}
	return strings.Join(parts, ",")
}

// readable reports the first credential file that cannot be read.
func (c Config) readable() error {
	if c.CredsFile != "" {
		if _, err := os.ReadFile(c.CredsFile); err != nil {
			return fmt.Errorf("nats.credsFile: %w", err)
		}
	}
	_, err := c.TLS.Client()
	return conf.Prefix("nats", err)
}
