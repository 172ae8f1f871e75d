package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Kind
	}{
		{nil, ""},
		{goredis.Nil, ""},
		{fmt.Errorf("reserve: %w", ErrAway), Away},
		{context.DeadlineExceeded, Budget},
		{fmt.Errorf("read: %w", os.ErrDeadlineExceeded), Budget},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, Unreachable},
		{io.EOF, Unreachable},
		{goredis.ErrClosed, Unreachable},
		{says("redis: all sentinels specified in configuration are unreachable"), Unreachable},
		{says("NOAUTH Authentication required."), Denied},
		{says("WRONGPASS invalid username-password pair or user is disabled."), Denied},
		{says("NOPERM this user has no permissions to run the 'evalsha' command"), Denied},
		{says("ERR AUTH <password> called without any password configured for the default user"), Denied},
		{says("READONLY You can't write against a read only replica."), ReadOnly},
		{says("NOREPLICAS Not enough good replicas to write."), ReadOnly},
		{says("OOM command not allowed when used memory > 'maxmemory'."), Full},
		{says("ERR max number of clients reached"), Full},
		{says("MOVED 3999 127.0.0.1:6381"), Moving},
		{says("ASK 3999 127.0.0.1:6381"), Moving},
		{says("TRYAGAIN Multiple keys request during rehashing of slot"), Moving},
		{says("CLUSTERDOWN The cluster is down"), Moving},
		{says("LOADING Redis is loading the dataset in memory"), Loading},
		{says("BUSY Redis is busy running a script."), Loading},
		{says("WRONGTYPE Operation against a key holding the wrong kind of value"), Wrong},
		{says("CROSSSLOT Keys in request don't hash to the same slot"), Wrong},
		{says("script reserve answers 7"), Wrong},
	} {
		if got := KindOf(c.err); got != c.want {
			t.Errorf("%v is %q, want %q", c.err, got, c.want)
		}
	}
}

func TestEveryKindHasARemedy(t *testing.T) {
	seen := map[string]Kind{}
	for _, k := range []Kind{Budget, Unreachable, Denied, ReadOnly, Full, Moving, Loading, Wrong} {
		if other, twice := seen[k.remedy()]; twice {
			t.Errorf("%s and %s have the same remedy", k, other)
		}
		seen[k.remedy()] = k
	}
}

func TestConfigFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*Config)
		want string // empty: good
	}{
		{"not used", func(*Config) {}, ""},
		{"one server", func(c *Config) { c.Address = "h:6379" }, ""},
		{"a password of the default user", func(c *Config) { c.Address, c.Password = "h:6379", "p" }, ""},
		{"IPv6", func(c *Config) { c.Address = "[::1]:6379" }, ""},
		{"a cluster", func(c *Config) { c.Addresses = []string{"a:1", "b:1"} }, ""},
		{"sentinels", func(c *Config) { c.Addresses, c.SentinelMaster, c.Database = []string{"a:1"}, "m", 3 }, ""},
		{"no port", func(c *Config) { c.Address = "h" }, `address: must be HOST:PORT, not "h"`},
		{"a URL", func(c *Config) { c.Address = "redis://h:6379" }, "address: must be HOST:PORT"},
		{"one of several is bad", func(c *Config) { c.Addresses = []string{"a:1", ":1"} }, `addresses: must be HOST:PORT, not ":1"`},
		{"two ways", func(c *Config) { c.Address, c.Addresses = "h:1", []string{"a:1"} }, "addresses: cannot be combined with address"},
		{"no sentinels", func(c *Config) { c.Address, c.SentinelMaster = "h:1", "m" }, "addresses: missing; sentinelMaster wants"},
		{"credentials for nobody", func(c *Config) { c.SentinelPassword = "p" }, "sentinelMaster: missing"},
		{"a database of a cluster", func(c *Config) { c.Addresses, c.Database = []string{"a:1"}, 1 }, "database: must be 0, not 1"},
		{"a negative database", func(c *Config) { c.Database = -1 }, "database: -1 is negative"},
		{"no time", func(c *Config) { c.Timeout, c.Budget = 0, -1 }, "timeout: must be above zero, not 0s\nbudget: must be above zero, not -1ns"},
		{"no connections", func(c *Config) { c.PoolSize = 0 }, "poolSize: 0 is not positive"},
		{"half a certificate", func(c *Config) { c.TLS.CertFile = "c" }, "tls.keyFile: must be set together"},
	} {
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
	text := "{addresses: ['a:1'], sentinelMaster: m, username: u, password: p, database: 2, timeout: 1s, budget: 10ms}"
	if err := conf.Parse("test", []byte(text), &cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.Username != "u" || cfg.Password != "p" || cfg.Budget.String() != "10ms" || cfg.location() != "m by sentinels a:1" || cfg.Cluster() || !cfg.Enabled() {
		t.Errorf("%+v", cfg)
	}
}

// says is an error with the words of a server or a client.
func says(words string) error { return errors.New(words) }
