package httpproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/run"
)

// headTimeout is how long a client may take to send the head of a request, and
// idleClient how long its connection is kept between requests.
const (
	headTimeout = 30 * time.Second
	idleClient  = 2 * time.Minute
)

// maxStreams is how many requests one HTTP/2 connection may have at once. A client with
// more opens another connection; one that resets its streams as fast as it opens them
// occupies no more than these.
const maxStreams = 250

// Part listens on Config.Address and serves until its context ends. Requests that
// are under way then may go on for DrainTimeout.
func (p *Proxy) Part(stdout io.Writer) run.Part {
	if p.cfg.Address == "" {
		return run.Idle
	}
	return func(ctx context.Context, ready func()) error {
		l, err := run.Listen(ctx, "listen.http.address", p.cfg.Address)
		if err != nil {
			return err
		}
		if p.cfg.TLS.Enabled() {
			failed := func(err error) { p.log.Warn("the old TLS certificate stays in use", "error", err) }
			tc, err := p.cfg.TLS.Server(failed, "h2", "http/1.1")
			if err != nil {
				_ = l.Close()
				return conf.Prefix("listen.http", err)
			}
			l = tls.NewListener(l, tc)
		}
		run.Announce(ctx, stdout, p.service, "http", run.Address(l))
		return p.serve(ctx, l, ready)
	}
}

func (p *Proxy) serve(ctx context.Context, l net.Listener, ready func()) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler:           p,
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ReadHeaderTimeout: headTimeout,
		IdleTimeout:       idleClient,
		// What net/http complains of is the clients' doing.
		ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	shutdown := run.Shutdown(server)
	defer p.transport.CloseIdleConnections()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	ready()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.DrainTimeout.D())
	defer cancel()
	if err := shutdown(drain); err != nil {
		p.log.Warn("requests were cut off", "after", p.cfg.DrainTimeout.D())
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}
