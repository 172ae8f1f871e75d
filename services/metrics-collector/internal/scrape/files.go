package scrape

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

// fileCheck is how long a file that was read is trusted not to have changed.
const fileCheck = time.Second

// tokenFile is a bearer token in a file, read anew when it changes.
type tokenFile struct {
	path    string
	checked time.Time
	token   string
	err     error
}

// get returns the token without blanks around it. Not safe for concurrent use.
func (f *tokenFile) get(now time.Time) (string, error) {
	if f.path == "" || !f.checked.IsZero() && now.Sub(f.checked) < fileCheck {
		return f.token, f.err
	}
	f.checked = now
	text, err := os.ReadFile(f.path)
	f.token, f.err = string(bytes.TrimSpace(text)), err
	if err == nil && f.token == "" {
		f.err = fmt.Errorf("tokenFile %s is empty", f.path)
	}
	return f.token, f.err
}

// material is the TLS configuration made of files, made anew when they change.
type material struct {
	spec fleet.TLS

	mu      sync.Mutex
	checked time.Time
	stamp   string
	config  *tls.Config
	err     error
}

// get returns the configuration for a handshake.
func (m *material) get(now time.Time) (*tls.Config, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.checked.IsZero() && now.Sub(m.checked) < fileCheck {
		return m.config, m.err
	}
	m.checked = now
	stamp := stampOf(m.spec.CAFile, m.spec.CertFile, m.spec.KeyFile)
	if m.err == nil && m.config != nil && stamp == m.stamp {
		return m.config, nil
	}
	m.stamp = stamp
	m.config, m.err = load(m.spec)
	return m.config, m.err
}

// stampOf changes whenever one of the files does.
func stampOf(files ...string) (stamp string) {
	for _, f := range files {
		if f == "" {
			continue
		}
		if info, err := os.Stat(f); err == nil {
			stamp += fmt.Sprint(info.ModTime().UnixNano(), info.Size(), ";")
		}
	}
	return stamp
}

func load(spec fleet.TLS) (*tls.Config, error) {
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         spec.ServerName,
		InsecureSkipVerify: spec.InsecureSkipVerify, //nolint:gosec // asked for by name
	}
	if spec.CAFile != "" {
		pem, err := os.ReadFile(spec.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.caFile: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.caFile: %s holds no certificate in PEM", spec.CAFile)
		}
	}
	if spec.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(spec.CertFile, spec.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls.certFile, tls.keyFile: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
