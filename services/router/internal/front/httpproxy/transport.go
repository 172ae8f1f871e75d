package httpproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
)

// newTransport returns the client side: HTTP/1.1, nothing decompressed, no proxies.
// chunks holds buffers to send bodies through.
func newTransport(cfg Config, chunks *sync.Pool) (*http.Transport, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: cfg.EndpointTLS.InsecureSkipVerify}
	if file := cfg.EndpointTLS.CAFile; file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read listen.http.endpointTLS.caFile: %w", err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("listen.http.endpointTLS.caFile: %s holds no certificate in PEM", file)
		}
	}
	dialer := &net.Dialer{Timeout: cfg.ConnectTimeout.D()}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return pooledConn{conn, chunks}, nil
		},
		TLSClientConfig:     secure,
		TLSHandshakeTimeout: cfg.ConnectTimeout.D(),
		Protocols:           protocols,
		DisableCompression:  true,
		// An engine's head is a few hundred bytes.
		MaxResponseHeaderBytes: 1 << 20,
		MaxIdleConnsPerHost:    cfg.IdleConnections,
		IdleConnTimeout:        cfg.KeepAlive.D(),
		WriteBufferSize:        16 << 10,
		ReadBufferSize:         16 << 10,
	}, nil
}

// pooledConn is a connection that sends bodies through pooled buffers, where net/http
// would make one for each.
type pooledConn struct {
	net.Conn
	chunks *sync.Pool
}

// ReadFrom sends what it reads from r.
func (c pooledConn) ReadFrom(r io.Reader) (int64, error) {
	chunk, _ := c.chunks.Get().(*[]byte)
	defer c.chunks.Put(chunk)
	return io.CopyBuffer(struct{ io.Writer }{c.Conn}, r, *chunk)
}
