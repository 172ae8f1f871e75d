package hop

import (
	"context"
	"crypto/tls"
	"net"
)

// Secure shakes hands over a connection to the address, "host:port", as a client; without a name in cfg the other side must
// be that host. If it fails, the connection is closed, and the error is that of dialling: nothing was sent yet.
func Secure(ctx context.Context, conn net.Conn, address string, cfg *tls.Config) (net.Conn, error) {
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Net: conn.RemoteAddr().Network(), Addr: conn.RemoteAddr(), Err: err}
	}
	return secured, nil
}
