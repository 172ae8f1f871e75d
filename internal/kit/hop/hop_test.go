package hop

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHeaders(t *testing.T) {
	for name, own := range map[string]bool{"Connection": true, "Te": true, "Http2-Settings": true, "Content-Type": false, "X-Request-Id": false} {
		if Own(name) != own {
			t.Errorf("%s: %v, want %v", name, !own, own)
		}
	}
	for _, tt := range []struct {
		values []string
		token  string
		want   bool
	}{
		{nil, "close", false}, {[]string{"keep-alive, Close"}, "close", true}, {[]string{"x", " close "}, "CLOSE", true}, {[]string{"closed"}, "close", false},
	} {
		if got := Listed(tt.values, tt.token); got != tt.want {
			t.Errorf("%q has %s: %v", tt.values, tt.token, got)
		}
	}
}

func TestSecure(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(s.Certificate())
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, address string, cfg *tls.Config) (net.Conn, error) {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		got, err := Secure(ctx, conn, address, cfg)
		if err == nil {
			_ = got.Close()
		} else if _, still := conn.Write([]byte("x")); still == nil {
			t.Error("the connection is still open")
		}
		return got, err
	}
	shared := &tls.Config{RootCAs: trusted}
	if _, err := dial(t.Context(), "127.0.0.1:"+port, shared); err != nil || shared.ServerName != "" {
		t.Errorf("%v, the configuration has the name %q", err, shared.ServerName)
	}
	if _, err := dial(t.Context(), "anything:1", &tls.Config{RootCAs: trusted, ServerName: "example.com"}); err != nil {
		t.Errorf("by another name: %v", err)
	}
	var op *net.OpError
	if _, err := dial(t.Context(), "another.host:1", shared); !errors.As(err, &op) || op.Op != "dial" {
		t.Errorf("another host: %v", err)
	}
	if _, err := dial(t.Context(), "no address", shared); err == nil {
		t.Error("no address is taken")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dial(over, "127.0.0.1:"+port, shared); !errors.As(err, &op) || op.Op != "dial" {
		t.Errorf("in vain: %v", err)
	}
}
