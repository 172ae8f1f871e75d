package bus

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

func TestConfigFaults(t *testing.T) {
	cases := []struct {
		name string
		set  func(*Config)
		want string // empty: good
	}{
		{"the defaults", func(*Config) {}, ""},
		{"several servers", func(c *Config) { c.URL = "nats://a:4222, nats://b:4222,tls://c" }, ""},
		{"no URL", func(c *Config) { c.URL = "" }, "url: want nats://host:port"},
		{"no host", func(c *Config) { c.URL = "nats://:4222" }, "url: want nats://host:port"},
		{"no scheme", func(c *Config) { c.URL = "localhost:4222" }, "url: want nats://host:port"},
		{"another scheme", func(c *Config) { c.URL = "http://a:4222" }, `url: scheme "http" is none of nats, tls, ws, wss`},
		{"one of several is bad", func(c *Config) { c.URL = "nats://a:4222,,nats://b" }, "url: want nats://host:port"},
		{"user and password", func(c *Config) { c.User, c.Password = "u", "p" }, ""},
		{"a token as user", func(c *Config) { c.User = "t" }, ""},
		{"a password of nobody", func(c *Config) { c.Password = "p" }, "user: missing"},
		{"two identities", func(c *Config) { c.User, c.CredsFile = "u", "f" }, "credsFile: cannot be combined with user"},
		{"a certificate without its key", func(c *Config) { c.TLS.CertFile = "c" }, "tls.keyFile: must be set together with certFile"},
		{"a key without its certificate", func(c *Config) { c.TLS.KeyFile = "k" }, "tls.certFile: must be set together with keyFile"},
		{"what is for servers", func(c *Config) { c.TLS.RequireClientCert = true }, "tls.requireClientCert: is for servers"},
		{"no room", func(c *Config) { c.PendingMessages, c.PendingBytes = 0, -1 }, "pendingMessages: 0 is not positive\npendingBytes: -1 is not positive"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			c.set(&cfg)
			got := ""
			if err := cfg.Validate(); err != nil {
				got = err.Error()
			}
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("Validate = %q, want %q", got, c.want)
			}
		})
	}
}

func TestConfigIsReadFromYAML(t *testing.T) {
	cfg := DefaultConfig()
	text := "{url: 'tls://a:1', user: u, password: p, tls: {caFile: ca, serverName: n}, pendingMessages: 7}"
	if err := conf.Parse("test", []byte(text), &cfg); err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.URL, want.User, want.Password, want.PendingMessages = "tls://a:1", "u", "p", 7
	want.TLS = rpc.TLSConfig{CAFile: "ca", ServerName: "n"}
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("got %+v, want %+v", cfg, want)
	}
}

func TestNewNamesWhatCannotBeRead(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		set  func(*Config)
		want []string
	}{
		{"credentials", func(c *Config) { c.CredsFile = none }, []string{"nats.credsFile: ", none}},
		{"authorities", func(c *Config) { c.TLS.CAFile = none }, []string{"nats.tls.caFile: ", none}},
		{"authorities that are none", func(c *Config) { c.TLS.CAFile = garbage }, []string{"nats.tls.caFile: ", garbage, "no certificate"}},
		{"our certificate", func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = none, none }, []string{"nats.tls.certFile: ", none}},
		{"a faulty URL", func(c *Config) { c.URL = "nats://u:secret@" }, []string{"nats.url: "}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			c.set(&cfg)
			_, err := New(cfg, "p", "id", telemetry.Discard())
			for _, want := range c.want {
				if got := fmt.Sprint(err); !strings.Contains(got, want) || strings.Contains(got, "secret") {
					t.Errorf("New = %q, want %q", got, want)
				}
			}
		})
	}
	for _, id := range []string{"", "\xff", strings.Repeat("x", 129)} {
		if _, err := New(DefaultConfig(), "p", id, telemetry.Discard()); err == nil {
			t.Errorf("the publisher id %q is taken", id)
		}
	}
}

func TestPublisherIDsDiffer(t *testing.T) {
	a, b := NewPublisherID("prefix indexer"), NewPublisherID("prefix indexer")
	if a == b {
		t.Errorf("both are %s", a)
	}
	for _, id := range []string{a, NewPublisherID(""), NewPublisherID(strings.Repeat("é.", 200))} {
		if len(id) > longestID || strings.ContainsFunc(id, func(r rune) bool {
			return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}) {
			t.Errorf("%q is no good as a token or too long", id)
		}
	}
	if !strings.HasPrefix(a, "prefix-indexer-") {
		t.Errorf("%q does not begin with the service", a)
	}
}
