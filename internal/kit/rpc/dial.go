package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	// pingEvery is how long a connection with open streams may be silent before an HTTP/2 ping. gRPC servers as they
	// come close a connection that pings more often than every 5 minutes (ENHANCE_YOUR_CALM), and a scorer may be anybody's.
	pingEvery   = 5*time.Minute + 30*time.Second
	pingTimeout = 10 * time.Second // also TCP_USER_TIMEOUT: how long sent bytes may stay unacknowledged

	// bufferBytes of reading and writing per connection: a batch of score calls or two chunks of a body.
	bufferBytes = 64 << 10

	// streamWindow and connectionWindow are how many bytes a peer may send before they are read, of a stream and of all
	// together. Without a word gRPC finds that out for itself, by a ping in answer to nearly everything that comes.
	streamWindow     = 512 << 10
	connectionWindow = 2 << 20
)

// everyAddress balances over all addresses a name resolves to; with one address it is that one.
const everyAddress = `{"loadBalancingConfig":[{"round_robin":{}}]}`

// Dial returns a connection to target: "host:port", "dns:///host:port" or "unix:///path". It connects when it is first
// used, so an error is about target or cfg, the TLS files among them, and never about the network. Close it.
func Dial(target string, cfg ClientConfig) (*grpc.ClientConn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("dial %s: %w", target, err)
	}
	if !strings.Contains(target, "://") {
		if _, _, err := net.SplitHostPort(target); err != nil {
			return nil, fmt.Errorf("dial %q: the target must be HOST:PORT, dns:///HOST:PORT or unix:///PATH", target)
		}
	}
	creds := insecure.NewCredentials()
	if cfg.TLS.Enabled() {
		// A broken replacement has nobody to be told to; the old material stays, and when it expires, the handshake says so.
		f, err := openFiles(cfg.TLS, func(error) {})
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", target, err)
		}
		creds = newReloading(f, cfg.TLS.clientConfig)
	}
	conn, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(dialer),
		grpc.WithNoProxy(),
		grpc.WithUserAgent("pointsman"),
		grpc.WithDefaultServiceConfig(everyAddress),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingTimeout}),
		grpc.WithIdleTimeout(0), // the first request after a quiet night should not wait for a handshake
		grpc.WithReadBufferSize(bufferBytes),
		grpc.WithWriteBufferSize(bufferBytes),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connectionWindow),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(cfg.MaxMessageBytes),
			grpc.MaxCallSendMsgSize(cfg.MaxMessageBytes),
		),
	)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", target, err)
	}
	return conn, nil
}

// dialer opens TCP connections whose peers are probed by the kernel, which costs nothing and offends nobody.
func dialer(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		return d.DialContext(ctx, "unix", path)
	}
	if strings.HasPrefix(address, "unix") {
		return nil, errors.New("a socket must be given as unix:///PATH")
	}
	return d.DialContext(ctx, "tcp", address)
}
