package proxy

import (
	"net"
	"net/http"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/rpc"
)

// newTransport returns the client side for one kind of engines: HTTP/1.1, nothing
// decompressed, no proxies. failed is told when new certificate files cannot be used.
func newTransport(cfg Config, key string, tc rpc.TLSConfig, failed func(error)) (*http.Transport, error) {
	now, err := tc.Follow(failed, "http/1.1")
	if err != nil {
		return nil, conf.Prefix(key, err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	dialer := &net.Dialer{Timeout: cfg.ConnectTimeout.D()}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		DialTLSContext:         dialTLS(dialer, cfg.ConnectTimeout.D(), now),
		Protocols:              protocols,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 1 << 20,
		MaxIdleConnsPerHost:    cfg.IdleConnections,
		IdleConnTimeout:        cfg.KeepAlive.D(),
	}, nil
}

// transports sends to the decoding engine by one transport and to all others by another.
type transports struct {
	decode, prefill http.RoundTripper
	own             map[string]bool // addresses of the decoding engine
}

// RoundTrip sends a request.
func (t *transports) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.own[r.URL.Host] {
		return t.decode.RoundTrip(r)
	}
	return t.prefill.RoundTrip(r)
}
