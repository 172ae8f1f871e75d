package httpproxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/rpc"
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

// Endpoints with the scheme https are authenticated by the authorities that are
// configured, and by another one when the file is replaced.
func TestEndpointsOverTLS(t *testing.T) {
	engine := httptest.NewTLSServer(echo())
	defer engine.Close()
	engine.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are to fail
	ca := filepath.Join(t.TempDir(), "ca.crt")
	mine := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: engine.Certificate().Raw})
	stranger := selfSigned(t)
	for name, c := range map[string]struct {
		tls    rpc.TLSConfig
		ca     []byte
		status int
	}{
		"its authority":       {rpc.TLSConfig{CAFile: ca}, mine, 200},
		"another's":           {rpc.TLSConfig{CAFile: ca}, stranger, 502},
		"the system's":        {rpc.TLSConfig{}, mine, 502},
		"anybody":             {rpc.TLSConfig{InsecureSkipVerify: true}, mine, 200},
		"another's name":      {rpc.TLSConfig{CAFile: ca, ServerName: "other.test"}, mine, 502},
		"a name it also has":  {rpc.TLSConfig{CAFile: ca, ServerName: "example.com"}, mine, 200},
		"replaced by its own": {rpc.TLSConfig{CAFile: ca}, stranger, 200},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(ca, c.ca, 0o600); err != nil {
				t.Fatal(err)
			}
			r := newRig(t, nil, with(func(cfg *Config) { cfg.Endpoints.TLS = c.tls }))
			host, port, err := net.SplitHostPort(engine.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				t.Fatal(err)
			}
			table, err := roster.NewTable([]roster.Endpoint{{ID: "e0", Host: host, Port: uint16(n), Scheme: "https"}})
			if err != nil {
				t.Fatal(err)
			}
			r.roster.SetTable(table)
			ask := func() int { return r.do(http.MethodPost, "/v1/completions", `{"model":"m","prompt":"x"}`).status }
			if name == "replaced by its own" {
				if err := os.WriteFile(ca, append(stranger, mine...), 0o600); err != nil {
					t.Fatal(err)
				}
				kittest.Eventually(t, "the new authority", func() bool { return ask() == 200 })
			}
			if got := ask(); got != c.status {
				t.Errorf("status %d, want %d", got, c.status)
			}
		})
	}
}

// selfSigned returns a certificate that nobody has seen before.
func selfSigned(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
