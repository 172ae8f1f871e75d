package bus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/conf"
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
	// TLS to the server. Default: only what the URL asks for.
	TLS TLSConfig `yaml:"tls"`
	// PendingMessages is how many messages of one subject may wait to be handled;
	// further ones are lost, which is counted and leads to a resynchronisation.
	// Default 65536. Raise it only if pointsman_bus_errors_total shows
	// kind="slow_consumer".
	PendingMessages int `yaml:"pendingMessages"`
	// PendingBytes is the same limit in bytes. Default 64 MiB.
	PendingBytes int `yaml:"pendingBytes"`
}

// TLSConfig says how the server is authenticated and how we are. Files are in
// PEM and are read anew at every connection, so they may be rotated.
type TLSConfig struct {
	// CAFile holds the authorities that the server's certificate is checked
	// against. Default: the system's.
	CAFile string `yaml:"caFile"`
	// CertFile and KeyFile are our own certificate, if the server asks for one.
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
	// ServerName is what the certificate must be for. Default: the URL's host.
	ServerName string `yaml:"serverName"`
	// InsecureSkipVerify accepts any certificate. For experiments only.
	InsecureSkipVerify bool `yaml:"insecureSkipVerify"`
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
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		fault("tls.certFile: certFile and keyFile belong together: set both or neither")
	}
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
	if _, err := c.TLS.load(); err != nil {
		return fmt.Errorf("nats.tls.%w", err)
	}
	return nil
}

// load reads the files. Nil means that only the URL decides about TLS.
func (c TLSConfig) load() (*tls.Config, error) {
	if c == (TLSConfig{}) {
		return nil, nil
	}
	t := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.ServerName,
		InsecureSkipVerify: c.InsecureSkipVerify, //nolint:gosec // asked for by name
	}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("caFile: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("caFile: %s holds no certificate in PEM", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("certFile %s, keyFile %s: %w", c.CertFile, c.KeyFile, err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
