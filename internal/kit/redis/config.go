package redis

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/rpc"
)

// Config says where Redis is and what it may cost.
type Config struct {
	// Address of one server, "host:port". Default none: Redis is not used.
	Address string `yaml:"address"`
	// Addresses, in place of Address: some nodes of a Redis Cluster, or, with
	// SentinelMaster, the sentinels. Default none.
	Addresses []string `yaml:"addresses"`
	// SentinelMaster is the name under which the sentinels know the server. Default none.
	SentinelMaster string `yaml:"sentinelMaster"`
	// SentinelUsername and SentinelPassword are for the sentinels themselves. Default none.
	SentinelUsername string      `yaml:"sentinelUsername"`
	SentinelPassword conf.Secret `yaml:"sentinelPassword"`
	// Username is the ACL user. Default none: the user "default".
	Username string `yaml:"username"`
	// Password of the user, or of a server with requirepass. Default none.
	Password conf.Secret `yaml:"password"`
	// Database is the number of the database. Default 0. Redis Cluster has only that.
	Database int `yaml:"database"`
	// TLS to the server (and to the sentinels); the files are read anew at every
	// connection. Default none.
	TLS rpc.TLSConfig `yaml:"tls"`
	// Timeout is how long connecting may take, and how long a connection may be silent.
	// Default 3 s. It delays no request: see Budget.
	Timeout conf.Duration `yaml:"timeout"`
	// Budget is how long one decision waits for Redis before it goes on without. Default
	// 25 ms. Raise it for a Redis far away, at the price of waiting so long for the first
	// few requests when it hangs.
	Budget conf.Duration `yaml:"budget"`
	// PoolSize is the most connections to one server. Default 32. Calls above it wait
	// for one, within their budget.
	PoolSize int `yaml:"poolSize"`
}

// DefaultConfig returns a configuration without an address: see [Config.Enabled].
func DefaultConfig() Config {
	return Config{
		Timeout:  conf.Duration(3 * time.Second),
		Budget:   conf.Duration(25 * time.Millisecond),
		PoolSize: 32,
	}
}

// Enabled tells whether Redis is to be used: an address is given.
func (c Config) Enabled() bool { return c.Address != "" || len(c.Addresses) > 0 }

// Cluster tells whether the addresses are those of a Redis Cluster.
func (c Config) Cluster() bool { return len(c.Addresses) > 0 && c.SentinelMaster == "" }

// Validate returns all faults at once. It reads no file.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Address != "" && len(c.Addresses) > 0 {
		fault("addresses: cannot be combined with address: keep one")
	}
	if c.Address != "" {
		if err := checkAddress(c.Address); err != nil {
			fault("address: %w", err)
		}
	}
	for _, a := range c.Addresses {
		if err := checkAddress(a); err != nil {
			fault("addresses: %w", err)
		}
	}
	switch {
	case c.SentinelMaster != "" && len(c.Addresses) == 0:
		fault("addresses: missing; sentinelMaster wants the addresses of the sentinels")
	case c.SentinelMaster == "" && (c.SentinelUsername != "" || c.SentinelPassword != ""):
		fault("sentinelMaster: missing, although credentials for sentinels are set")
	}
	switch {
	case c.Database < 0:
		fault("database: %d is negative", c.Database)
	case c.Database > 0 && c.Cluster():
		fault("database: must be 0, not %d: a Redis Cluster has only one", c.Database)
	}
	faults = append(faults, c.TLS.ValidateClient())
	for _, d := range []struct {
		key string
		conf.Duration
	}{{"timeout", c.Timeout}, {"budget", c.Budget}} {
		if d.Duration <= 0 {
			fault("%s: must be above zero, not %v", d.key, d.Duration)
		}
	}
	if c.PoolSize <= 0 {
		fault("poolSize: %d is not positive", c.PoolSize)
	}
	return errors.Join(faults...)
}

func checkAddress(a string) error {
	host, port, err := net.SplitHostPort(a)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("must be HOST:PORT, not %q", a)
	}
	return nil
}

// location is where Redis is, for people. It holds no credentials.
func (c Config) location() string {
	switch {
	case c.SentinelMaster != "":
		return fmt.Sprintf("%s by sentinels %s", c.SentinelMaster, strings.Join(c.Addresses, ","))
	case c.Cluster():
		return strings.Join(c.Addresses, ",")
	}
	return c.Address
}
