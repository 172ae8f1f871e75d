package rpc

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// TLSConfig names PEM files. They are read again when they change: looked at in handshakes, at most once a second.
type TLSConfig struct {
	// CertFile and KeyFile are this side's certificate chain and key. A server needs them; a client has them for mTLS.
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
	// CAFile holds the authorities that the other side's certificate is checked against. Default for a client: the
	// system's; for a server: certificates of clients are not asked for.
	CAFile string `yaml:"caFile"`
	// RequireClientCert makes a server refuse clients without a certificate signed by CAFile. Default false: a
	// certificate is checked if given. Servers only.
	RequireClientCert bool `yaml:"requireClientCert"`
	// ServerName is what the server's certificate must be for. Default: the host of the target. Clients only.
	ServerName string `yaml:"serverName"`
	// InsecureSkipVerify accepts any certificate. Default false; for tests on a network of one's own. Clients only.
	InsecureSkipVerify bool `yaml:"insecureSkipVerify"`
	// PeerNames are who the other side may be: its certificate must have one of them, word for word, as a URI, such as
	// spiffe://example.org/ns/inference/sa/router, or as a DNS name. Default: whoever has a certificate that is accepted.
	PeerNames []string `yaml:"peerNames"`
}

// Enabled tells whether TLS is on: something other than RequireClientCert is set.
func (c TLSConfig) Enabled() bool {
	return c.CertFile != "" || c.KeyFile != "" || c.CAFile != "" || c.ServerName != "" || c.InsecureSkipVerify || len(c.PeerNames) > 0
}

// checkPeer returns what a handshake asks whether the other side is one of PeerNames; nil if anybody is welcome.
func (c TLSConfig) checkPeer() func(tls.ConnectionState) error {
	if len(c.PeerNames) == 0 {
		return nil
	}
	return func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the other side has shown no certificate, and tls.peerNames says who it must be")
		}
		leaf := s.PeerCertificates[0]
		names := slices.Clone(leaf.DNSNames)
		for _, u := range leaf.URIs {
			names = append(names, u.String())
		}
		if !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(c.PeerNames, n) }) {
			return fmt.Errorf("the other side's certificate is for %q, none of which is among tls.peerNames %q", names, c.PeerNames)
		}
		return nil
	}
}

// ValidateClient returns what is wrong with c for a client; each fault begins with its key, "tls.…".
func (c TLSConfig) ValidateClient() error {
	errs := c.pair()
	if c.RequireClientCert {
		errs = append(errs, errors.New("tls.requireClientCert: is for servers; a client presents certFile and keyFile"))
	}
	if c.InsecureSkipVerify && len(c.PeerNames) > 0 {
		errs = append(errs, errors.New("tls.insecureSkipVerify: must be false, because peerNames says who the server may be, and whoever signs its own certificate may write any name into it"))
	}
	return errors.Join(errs...)
}

// ValidateServer returns what is wrong with c for a server; each fault begins with its key, "tls.…".
func (c TLSConfig) ValidateServer() error {
	errs := c.pair()
	fault := func(text string) { errs = append(errs, errors.New(text)) }
	if c.CertFile == "" && (c.CAFile != "" || c.RequireClientCert) {
		fault("tls.certFile: must be set, because TLS is asked for by caFile or requireClientCert")
	}
	if c.RequireClientCert && c.CAFile == "" {
		fault("tls.caFile: must be set, because requireClientCert needs something to check certificates against")
	}
	if len(c.PeerNames) > 0 && !c.RequireClientCert {
		fault("tls.requireClientCert: must be true, because peerNames says who clients may be")
	}
	if c.ServerName != "" {
		fault("tls.serverName: is for clients; a server is known by its certificate")
	}
	if c.InsecureSkipVerify {
		fault("tls.insecureSkipVerify: is for clients; a server without caFile asks for no certificates")
	}
	return errors.Join(errs...)
}

// pair checks that certificate and key come together.
func (c TLSConfig) pair() []error {
	switch {
	case c.CertFile == "" && c.KeyFile != "":
		return []error{errors.New("tls.certFile: must be set together with keyFile")}
	case c.KeyFile == "" && c.CertFile != "":
		return []error{errors.New("tls.keyFile: must be set together with certFile")}
	}
	return nil
}

// Server returns the configuration of a TLS server that is not gRPC's, such as an HTTP front; it follows the files as
// gRPC servers do. protocols are offered by ALPN. failed is told, once, when new files cannot be used and the old ones stay.
// An error begins with the key at fault, "tls.…".
func (c TLSConfig) Server(failed func(error), protocols ...string) (*tls.Config, error) {
	if err := c.ValidateServer(); err != nil {
		return nil, err
	}
	if c.CertFile == "" {
		return nil, errors.New("tls.certFile: must be set, a server needs a certificate")
	}
	f, err := openFiles(c, failed)
	if err != nil {
		return nil, err
	}
	now := f.configs(func(m *material) *tls.Config {
		out := c.serverConfig(m)
		out.NextProtos = protocols
		return out
	})
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return now(), nil },
	}, nil
}

// Client returns the configuration of a TLS client that is not gRPC's, with what the files hold now: a client that is to
// follow them asks for it at every connection. It is nil if c says nothing about TLS. An error begins with the key at
// fault, "tls.…".
func (c TLSConfig) Client() (*tls.Config, error) {
	if err := c.ValidateClient(); err != nil || !c.Enabled() {
		return nil, err
	}
	m, err := readMaterial(c)
	if err != nil {
		return nil, err
	}
	return c.clientConfig(m), nil
}

// Follow returns a function that returns the configuration of a TLS client that is not gRPC's, with what the files hold at
// that time; the result is not to be changed. Without anything in c it is that of a client that knows the system's
// authorities. protocols are offered by ALPN. failed is told, once, when new files cannot be used and the old ones stay. An
// error begins with the key at fault, "tls.…".
func (c TLSConfig) Follow(failed func(error), protocols ...string) (func() *tls.Config, error) {
	if err := c.ValidateClient(); err != nil {
		return nil, err
	}
	f, err := openFiles(c, failed)
	if err != nil {
		return nil, err
	}
	return f.configs(func(m *material) *tls.Config {
		out := c.clientConfig(m)
		out.NextProtos = protocols
		return out
	}), nil
}

// configs returns a function that returns what build makes of the present material, made once for each.
func (f *files) configs(build func(*material) *tls.Config) func() *tls.Config {
	var mu sync.Mutex
	of := f.current()
	made := build(of)
	return func() *tls.Config {
		m := f.current()
		mu.Lock()
		defer mu.Unlock()
		if m != of {
			of, made = m, build(m)
		}
		return made
	}
}

// clientConfig is the configuration of a client that holds m.
func (c TLSConfig) clientConfig(m *material) *tls.Config {
	out := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.ServerName,
		RootCAs:            m.authorities, // nil: the system's
		InsecureSkipVerify: c.InsecureSkipVerify,
	}
	if m.certificate != nil {
		out.Certificates = []tls.Certificate{*m.certificate}
	}
	out.VerifyConnection = c.checkPeer()
	return out
}

// serverConfig is the configuration of a server that holds m.
func (c TLSConfig) serverConfig(m *material) *tls.Config {
	out := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		ClientCAs:    m.authorities,
		Certificates: []tls.Certificate{*m.certificate},
	}
	out.VerifyConnection = c.checkPeer()
	switch {
	case c.RequireClientCert:
		out.ClientAuth = tls.RequireAndVerifyClientCert
	case m.authorities != nil:
		out.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return out
}
