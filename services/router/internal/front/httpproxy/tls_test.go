package httpproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// pair writes a certificate for 127.0.0.1 and its key, and returns who trusts it.
func pair(t *testing.T) (cert, key string, trust *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	raw, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: s.Certificate().Raw}, key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trust = x509.NewCertPool()
	trust.AddCert(s.Certificate())
	return cert, key, trust
}

func TestTLS(t *testing.T) {
	cert, key, trust := pair(t)
	cfg := DefaultConfig()
	cfg.Address, cfg.TLS.CertFile, cfg.TLS.KeyFile = "127.0.0.1:0", cert, key
	r := &rig{t: t}
	p, err := New(r, roster.New(roster.Config{}), r, telemetry.Discard(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	addresses := make(chan string, 1)
	ctx, stop := context.WithCancel(run.WithAnnounce(t.Context(), func(_, _, addr string) { addresses <- addr }))
	ended := make(chan error, 1)
	go func() { ended <- p.Part(io.Discard)(ctx, func() {}) }()
	address := <-addresses
	for name, protocols := range map[string][]string{"HTTP/1.1": {"http/1.1"}, "HTTP/2.0": {"h2"}} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust, NextProtos: protocols}, ForceAttemptHTTP2: name == "HTTP/2.0"}
		resp, err := (&http.Client{Transport: tr}).Get("https://" + address + "/nowhere")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		resp.Body.Close()
		tr.CloseIdleConnections()
		if resp.Proto != name || resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s, status %d; want %s and 404", resp.Proto, resp.StatusCode, name)
		}
	}
	if resp, err := http.Get("http://" + address + "/nowhere"); err == nil {
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("plain text was answered with %d", resp.StatusCode)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTLSThatCannotBe(t *testing.T) {
	cfg := DefaultConfig()
	cfg.TLS.CertFile = "/does/not/exist"
	if err := cfg.Validate(); err == nil {
		t.Error("a certificate without a key was taken")
	}
}
