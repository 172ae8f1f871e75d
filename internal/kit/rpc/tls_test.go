package rpc_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	testv1 "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

func withTLS(m material) rpc.ServerConfig {
	cfg := plain()
	cfg.TLS = rpc.TLSConfig{CertFile: m.cert, KeyFile: m.key}
	return cfg
}

func trusting(m material) rpc.ClientConfig {
	cfg := rpc.DefaultClientConfig()
	cfg.TLS.CAFile = m.ca
	return cfg
}

// serverName makes one call on a new connection and returns whom the certificate of the server names.
func serverName(t *testing.T, target string, cfg rpc.ClientConfig) (string, error) {
	t.Helper()
	conn, err := rpc.Dial(target, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var p peer.Peer
	_, err = testv1.NewTestServiceClient(conn).EmptyCall(t.Context(), &testv1.Empty{}, grpc.Peer(&p))
	if err != nil {
		return "", err
	}
	return p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].Subject.CommonName, nil
}

func TestServerTakesNewCertificates(t *testing.T) {
	ca := newAuthority(t, "ca")
	files := newMaterial(t)
	files.write(t, "first", ca, ca)
	tel := telemetry.Discard()
	log := new(syncBuffer)
	tel.Log = slog.New(slog.NewTextHandler(log, nil))
	r := start(t, withTLS(files), tel, &echo{})
	cfg := trusting(files)

	named := func(want string) func() bool {
		return func() bool {
			got, err := serverName(t, r.addr, cfg)
			if err != nil {
				t.Fatalf("call: %v", err)
			}
			return got == want
		}
	}
	if !named("first")() {
		t.Error("the server does not present its certificate")
	}
	replace(t, files.cert, []byte("half a certif"))
	kittest.Eventually(t, "the broken file is complained about", func() bool {
		return named("first")() && strings.Contains(log.String(), "new certificate files cannot be used")
	})
	files.write(t, "second", ca, ca)
	kittest.Eventually(t, "the new certificate is presented", named("second"))
	if n := strings.Count(log.String(), "find any PEM data"); n != 1 {
		t.Errorf("one broken file is complained about %d times:\n%s", n, log.String())
	}
}

func TestClientTakesNewAuthoritiesAndCertificates(t *testing.T) {
	old, young := newAuthority(t, "old"), newAuthority(t, "young")
	server, client := newMaterial(t), newMaterial(t)
	server.write(t, "server", old, old)
	client.write(t, "client", old, old)
	cfg := withTLS(server)
	cfg.TLS.CAFile, cfg.TLS.RequireClientCert = server.ca, true
	clientCfg := trusting(client)
	clientCfg.TLS.CertFile, clientCfg.TLS.KeyFile = client.cert, client.key

	first := start(t, cfg, telemetry.Discard(), &echo{})
	conn := dial(t, first.addr, clientCfg)
	if err := call(t, conn); err != nil {
		t.Fatal(err)
	}
	// The server goes, everything is signed anew, and a server comes back at the same address: the same connection
	// must accept it and be accepted.
	first.stop()
	server.write(t, "server", young, young)
	client.write(t, "client", young, young)
	cfg.Address = first.addr
	start(t, cfg, telemetry.Discard(), &echo{})
	kittest.Eventually(t, "the connection works with the new files", func() bool { return call(t, conn) == nil })
}

func TestMutualTLS(t *testing.T) {
	ca, stranger := newAuthority(t, "ca"), newAuthority(t, "stranger")
	server, good, bad := newMaterial(t), newMaterial(t), newMaterial(t)
	server.write(t, "server", ca, ca)
	good.write(t, "good", ca, ca)
	bad.write(t, "bad", stranger, ca)
	tests := []struct {
		name     string
		required bool
		client   func(*rpc.TLSConfig)
		ok       bool
	}{
		{"required and given", true, func(c *rpc.TLSConfig) { c.CertFile, c.KeyFile = good.cert, good.key }, true},
		{"required and missing", true, func(*rpc.TLSConfig) {}, false},
		{"required, and from a stranger", true, func(c *rpc.TLSConfig) { c.CertFile, c.KeyFile = bad.cert, bad.key }, false},
		{"not required", false, func(*rpc.TLSConfig) {}, true},
		{"not required, and from a stranger: it is not even presented", false, func(c *rpc.TLSConfig) { c.CertFile, c.KeyFile = bad.cert, bad.key }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := withTLS(server)
			cfg.TLS.CAFile, cfg.TLS.RequireClientCert = server.ca, tt.required
			r := start(t, cfg, telemetry.Discard(), &echo{})
			client := trusting(server)
			tt.client(&client.TLS)
			err := call(t, dial(t, r.addr, client))
			if (err == nil) != tt.ok || (err != nil && status.Code(err) != codes.Unavailable) {
				t.Errorf("call = %v, want it to work: %v", err, tt.ok)
			}
		})
	}
}

func TestClientChecksTheServer(t *testing.T) {
	ca, stranger := newAuthority(t, "ca"), newAuthority(t, "stranger")
	server := newMaterial(t)
	server.write(t, "server", ca, ca)
	wrong := newMaterial(t)
	wrong.write(t, "other", stranger, stranger)
	r := start(t, withTLS(server), telemetry.Discard(), &echo{})
	_, port, _ := strings.Cut(r.addr, ":")
	tests := []struct {
		name   string
		target string
		change func(*rpc.TLSConfig)
		want   string // a part of the error; empty: it works
	}{
		{"by IP", r.addr, func(*rpc.TLSConfig) {}, ""},
		{"by name", "dns:///localhost:" + port, func(*rpc.TLSConfig) {}, ""},
		{"another name", r.addr, func(c *rpc.TLSConfig) { c.ServerName = "router.example" }, "not router.example"},
		{"an unknown authority", r.addr, func(c *rpc.TLSConfig) { c.CAFile = wrong.ca }, "unknown authority"},
		{"an unknown authority, unchecked", r.addr, func(c *rpc.TLSConfig) { *c = rpc.TLSConfig{InsecureSkipVerify: true} }, ""},
		{"plain text", r.addr, func(c *rpc.TLSConfig) { *c = rpc.TLSConfig{} }, "connection error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := trusting(server)
			tt.change(&cfg.TLS)
			err := call(t, dial(t, tt.target, cfg))
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("call: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("call = %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestHTTPServerTakesNewCertificates(t *testing.T) {
	ca := newAuthority(t, "ca")
	files := newMaterial(t)
	files.write(t, "first", ca, ca)
	secure, err := rpc.TLSConfig{CertFile: files.cert, KeyFile: files.key}.Server(
		func(err error) { t.Errorf("new files cannot be used: %v", err) }, "h2", "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto)
	}))
	server.Listener = tls.NewListener(server.Listener, secure)
	server.Config.TLSConfig = secure
	server.Start()
	defer server.Close()

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.pem)
	named := func(want string) func() bool {
		return func() bool {
			client := http.Client{Transport: &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true,
			}}
			resp, err := client.Get("https://" + server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			return resp.TLS.PeerCertificates[0].Subject.CommonName == want
		}
	}
	if !named("first")() {
		t.Error("the server does not present its certificate")
	}
	cert, key := ca.sign(t, "second")
	replace(t, files.key, key) // for a moment it does not match, which may not matter to anybody
	replace(t, files.cert, cert)
	kittest.Eventually(t, "the new certificate is presented", named("second"))

	if _, err := (rpc.TLSConfig{}).Server(nil); err == nil || !strings.HasPrefix(err.Error(), "tls.certFile: ") {
		t.Errorf("Server without a certificate = %v, want a fault of tls.certFile", err)
	}
}

// A client that is not gRPC's follows its files too.
func TestFollow(t *testing.T) {
	first, second := newAuthority(t, "first"), newAuthority(t, "second")
	files := newMaterial(t)
	files.write(t, "server", second, first)
	secure, err := rpc.TLSConfig{CertFile: files.cert, KeyFile: files.key}.Server(nil, "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Listener = tls.NewListener(server.Listener, secure)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	defer server.Close()
	now, err := rpc.TLSConfig{CAFile: files.ca, ServerName: "localhost"}.Follow(nil, "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	connects := func() bool {
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), now())
		if err != nil {
			return false
		}
		defer conn.Close()
		return conn.ConnectionState().NegotiatedProtocol == "http/1.1"
	}
	if connects() {
		t.Error("a stranger is believed")
	}
	if a, b := now(), now(); a != b {
		t.Error("it is made anew without need")
	}
	replace(t, files.ca, second.pem)
	kittest.Eventually(t, "the new authority to be believed", connects)
	if _, err := (rpc.TLSConfig{CAFile: "/nowhere"}).Follow(nil); err == nil || !strings.HasPrefix(err.Error(), "tls.caFile: /nowhere") {
		t.Errorf("Follow without a file = %v", err)
	}
	if all, err := (rpc.TLSConfig{}).Follow(nil); err != nil || all().RootCAs != nil || all().InsecureSkipVerify {
		t.Errorf("Follow without anything = %v", err)
	}
}

// syncBuffer is a buffer that several goroutines may use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestPeerNames(t *testing.T) {
	ca := newAuthority(t, "ca")
	router, scorer := newMaterial(t), newMaterial(t)
	router.write(t, "router", ca, ca)
	scorer.write(t, "scorer", ca, ca)
	const self, other = "spiffe://test/sa/scorer", "spiffe://test/sa/router"
	tests := []struct {
		name           string
		server, client []string // whom each side accepts
		anonymous      bool     // the client has no certificate
		ok             bool
	}{
		{"both as they should be", []string{"spiffe://test/sa/x", other}, []string{self}, false, true},
		{"a DNS name", []string{"localhost"}, []string{"localhost"}, false, true},
		{"a client of another name", []string{"spiffe://test/sa/x"}, nil, false, false},
		{"a part of a name", []string{"spiffe://test/sa/rout"}, nil, false, false},
		{"the common name does not count", []string{"router"}, nil, false, false},
		{"a server of another name", nil, []string{other}, false, false},
		{"a client of no name", []string{other}, nil, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := withTLS(scorer)
			cfg.TLS.CAFile, cfg.TLS.RequireClientCert, cfg.TLS.PeerNames = scorer.ca, true, tt.server
			r := start(t, cfg, telemetry.Discard(), &echo{})
			client := trusting(router)
			client.TLS.PeerNames = tt.client
			if !tt.anonymous {
				client.TLS.CertFile, client.TLS.KeyFile = router.cert, router.key
			}
			err := call(t, dial(t, r.addr, client))
			if (err == nil) != tt.ok {
				t.Errorf("call = %v, want it to work: %v", err, tt.ok)
			}
		})
	}
	if err := (rpc.TLSConfig{InsecureSkipVerify: true, PeerNames: []string{self}}).ValidateClient(); err == nil || !strings.HasPrefix(err.Error(), "tls.insecureSkipVerify: ") {
		t.Errorf("names in certificates that are not verified: %v", err)
	}
	if err := (rpc.TLSConfig{CertFile: "a", KeyFile: "b", CAFile: "c", PeerNames: []string{self}}).ValidateServer(); err == nil {
		t.Error("a server that names clients but does not ask for certificates is accepted")
	}
}
