package httpproxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/hop"
)

// newTransport returns the client side: HTTP/1.1, nothing decompressed, no proxies.
// chunks holds buffers to send bodies through. failed is told when new certificate files
// cannot be used.
func newTransport(cfg Config, chunks *sync.Pool, failed func(error)) (*http.Transport, error) {
	secure, err := cfg.Endpoints.TLS.Follow(failed, "http/1.1")
	if err != nil {
		return nil, conf.Prefix("listen.http.endpoints", err)
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
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			// As a whole it takes no longer than to connect may.
			ctx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout.D())
			defer cancel()
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return hop.Secure(ctx, conn, address, secure())
		},
		Protocols:          protocols,
		DisableCompression: true,
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
