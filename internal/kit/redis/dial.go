package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

// silence keeps go-redis from writing to stderr what is counted and logged here. Its
// logger is one for the process, so it is set once, before the first client is made.
var silence = sync.OnceFunc(func() { goredis.SetLogger(silent{}) })

type silent struct{}

// Printf implements go-redis's logger.
func (silent) Printf(context.Context, string, ...any) {}

// connection returns a go-redis client that has not connected yet. Nothing is retried by it:
// callers have a budget, and a script must not run twice.
func connection(cfg Config) goredis.UniversalClient {
	silence()
	timeout := cfg.Timeout.D()
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	dial := dialer(cfg)
	switch {
	case cfg.SentinelMaster != "":
		return goredis.NewFailoverClient(&goredis.FailoverOptions{
			MasterName: cfg.SentinelMaster, SentinelAddrs: cfg.Addresses,
			SentinelUsername: cfg.SentinelUsername, SentinelPassword: string(cfg.SentinelPassword),
			Username: cfg.Username, Password: string(cfg.Password), DB: cfg.Database,
			Dialer: dial, DialTimeout: timeout, DialerRetries: 1, ReadTimeout: timeout, WriteTimeout: timeout,
			Protocol: 2, DisableIdentity: true,
			ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: cfg.PoolSize, PipelinePoolSize: -1,
		})
	case cfg.Cluster():
		return goredis.NewClusterClient(&goredis.ClusterOptions{
			Addrs:    cfg.Addresses,
			Username: cfg.Username, Password: string(cfg.Password),
			Dialer: dial, DialTimeout: timeout, DialerRetries: 1, ReadTimeout: timeout, WriteTimeout: timeout,
			Protocol: 2, DisableIdentity: true, MaintNotificationsConfig: quiet,
			ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: cfg.PoolSize, PipelinePoolSize: -1,
			DisableRoutingPolicies: true, FailingTimeoutSeconds: 1,
		})
	}
	return goredis.NewClient(&goredis.Options{
		Addr:     cfg.Address,
		Username: cfg.Username, Password: string(cfg.Password), DB: cfg.Database,
		Dialer: dial, DialTimeout: timeout, DialerRetries: 1, ReadTimeout: timeout, WriteTimeout: timeout,
		Protocol: 2, DisableIdentity: true, MaintNotificationsConfig: quiet,
		ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: cfg.PoolSize, PipelinePoolSize: -1,
	})
}

// dialer dials with the certificates as they are at that moment.
func dialer(cfg Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		nd := net.Dialer{Timeout: cfg.Timeout.D()}
		secure, err := cfg.TLS.Client()
		if err != nil {
			return nil, conf.Prefix("redis", err)
		}
		if secure == nil {
			return nd.DialContext(ctx, network, address)
		}
		if secure.ServerName == "" {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, fmt.Errorf("dial %q: %w", address, err)
			}
			secure.ServerName = host
		}
		return (&tls.Dialer{NetDialer: &nd, Config: secure}).DialContext(ctx, network, address)
	}
}
