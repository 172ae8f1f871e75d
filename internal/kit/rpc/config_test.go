package rpc_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

func TestServerConfigFaults(t *testing.T) {
	dir := t.TempDir()
	ca := newAuthority(t, "ca")
	files := newMaterial(t)
	files.write(t, "server", ca, ca)
	other := newMaterial(t)
	other.write(t, "other", ca, ca)
	notPEM := filepath.Join(dir, "not.pem")
	replace(t, notPEM, []byte("hello"))
	absent := filepath.Join(dir, "absent.pem")

	tests := []struct {
		name   string
		change func(*rpc.ServerConfig)
		want   []string
	}{
		{"no port", func(c *rpc.ServerConfig) { c.Address = "localhost" },
			[]string{`listen.grpc.address: must be HOST:PORT or unix:///PATH, not "localhost"`}},
		{"a relative socket", func(c *rpc.ServerConfig) { c.Address = "unix://x.sock" },
			[]string{`listen.grpc.address: a socket must be unix:///PATH, not "unix://x.sock"`}},
		{"all at once", func(c *rpc.ServerConfig) {
			*c = rpc.ServerConfig{DrainTimeout: -1, TLS: rpc.TLSConfig{
				CertFile: files.cert, RequireClientCert: true, ServerName: "x", InsecureSkipVerify: true,
			}}
		}, []string{
			"listen.grpc.maxMessageBytes: must be at least 4096, not 0",
			"listen.grpc.tls.keyFile: must be set together with certFile",
			"listen.grpc.tls.caFile: must be set, because requireClientCert needs something to check certificates against",
			"listen.grpc.tls.serverName: is for clients; a server is known by its certificate",
			"listen.grpc.tls.insecureSkipVerify: is for clients; a server without caFile asks for no certificates",
			"listen.grpc.drainTimeout: must not be below zero, not -1ns",
			`listen.grpc.address: must be HOST:PORT or unix:///PATH, not ""`,
		}},
		{"an authority, but no certificate", func(c *rpc.ServerConfig) { c.TLS.CAFile = files.ca },
			[]string{"listen.grpc.tls.certFile: must be set, because TLS is asked for by caFile or requireClientCert"}},
		{"absent file", func(c *rpc.ServerConfig) { c.TLS = rpc.TLSConfig{CertFile: absent, KeyFile: files.key} },
			[]string{"listen.grpc.tls.certFile: " + absent + ": no such file or directory"}},
		{"another's key", func(c *rpc.ServerConfig) { c.TLS = rpc.TLSConfig{CertFile: files.cert, KeyFile: other.key} },
			[]string{"listen.grpc.tls.certFile: load " + files.cert + " with key " + other.key + ": tls: private key does not match public key"}},
		{"not PEM", func(c *rpc.ServerConfig) {
			c.TLS = rpc.TLSConfig{CertFile: files.cert, KeyFile: files.key, CAFile: notPEM}
		}, []string{"listen.grpc.tls.caFile: " + notPEM + ": no certificate in it; it must be PEM"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := plain()
			tt.change(&cfg)
			_, err := rpc.NewServer("grpc", cfg, telemetry.Discard())
			if err == nil {
				t.Fatal("no error")
			}
			if d := cmp.Diff(tt.want, strings.Split(err.Error(), "\n")); d != "" {
				t.Errorf("faults (-want +got):\n%s", d)
			}
		})
	}
}

func TestDialFaults(t *testing.T) {
	tests := []struct {
		name   string
		target string
		change func(*rpc.ClientConfig)
		want   string
	}{
		{"no port", "scorer-kv", func(*rpc.ClientConfig) {},
			`dial "scorer-kv": the target must be HOST:PORT, dns:///HOST:PORT or unix:///PATH`},
		{"nothing", "", func(*rpc.ClientConfig) {},
			`dial "": the target must be HOST:PORT, dns:///HOST:PORT or unix:///PATH`},
		{"a setting for servers", "kv:9100", func(c *rpc.ClientConfig) { c.TLS.RequireClientCert = true },
			"dial kv:9100: tls.requireClientCert: is for servers; a client presents certFile and keyFile"},
		{"absent file", "kv:9100", func(c *rpc.ClientConfig) { c.TLS.CAFile = "/none/ca.pem" },
			"dial kv:9100: tls.caFile: /none/ca.pem: no such file or directory"},
		{"no size", "kv:9100", func(c *rpc.ClientConfig) { c.MaxMessageBytes = 0 },
			"dial kv:9100: maxMessageBytes: must be at least 4096, not 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := rpc.DefaultClientConfig()
			tt.change(&cfg)
			conn, err := rpc.Dial(tt.target, cfg)
			if err == nil {
				conn.Close()
				t.Fatal("no error")
			}
			if err.Error() != tt.want {
				t.Errorf("Dial = %v, want %s", err, tt.want)
			}
		})
	}
}
