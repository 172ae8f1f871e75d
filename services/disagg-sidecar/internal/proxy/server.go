package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/run"
)

// headTimeout is how long a client may take to send the head of a request, and
// idleClient how long its connection is kept between requests.
const (
	headTimeout = 30 * time.Second
	idleClient  = 5 * time.Minute
)

// Part listens, a port for each rank, until its context ends. It then says that it is not
// ready, goes on for DrainDelay, and lets requests that are under way go on for
// DrainTimeout.
func (p *Proxy) Part(stdout io.Writer) run.Part {
	return func(ctx context.Context, ready func()) error {
		defer p.pods.follow(ctx)()
		var all []net.Listener
		for i := range p.ranks {
			l, err := p.listen(ctx, i)
			if err != nil {
				for _, l := range all {
					_ = l.Close()
				}
				return err
			}
			all = append(all, l)
			run.Announce(ctx, stdout, p.service, "http", run.Address(l))
		}
		return p.serve(ctx, all, ready)
	}
}

func (p *Proxy) listen(ctx context.Context, rank int) (net.Listener, error) {
	address, err := ranked(p.cfg.Listen.Address, rank)
	if err != nil {
		return nil, fmt.Errorf("listen.address: %w", err)
	}
	l, err := run.Listen(ctx, "listen.address", address)
	if err != nil {
		return nil, err
	}
	var tc *tls.Config
	switch {
	case p.cfg.Listen.TLS.Enabled():
		tc, err = p.cfg.Listen.TLS.Server(func(err error) { p.log.Warn("the old TLS certificate stays in use", "error", err) }, "h2", "http/1.1")
		err = conf.Prefix("listen", err)
	case p.cfg.Listen.SelfSigned:
		tc, err = selfSigned()
	default:
		return l, nil
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return tls.NewListener(l, tc), nil
}

func (p *Proxy) serve(ctx context.Context, all []net.Listener, ready func()) error {
	defer p.decode.CloseIdleConnections()
	defer p.prefill.CloseIdleConnections()
	defer p.encode.CloseIdleConnections()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	served := make(chan error, len(all))
	var ends []func(context.Context) error
	for i, l := range all {
		s := &http.Server{
			Handler: p.ranks[i], Protocols: protocols, ReadHeaderTimeout: headTimeout, IdleTimeout: idleClient, MaxHeaderBytes: 1 << 20,
			ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug), // what net/http complains of is the clients' doing
		}
		shutdown := run.Shutdown(s)
		ends = append(ends, func(ctx context.Context) error {
			err := shutdown(ctx)
			if err != nil {
				_ = s.Close()
			}
			return err
		})
		go func() { served <- s.Serve(l) }()
	}
	ready()
	var fault error
	left := len(all)
	select {
	case fault = <-served:
		left--
	case <-ctx.Done():
		p.health.Set("drain", errors.New("the sidecar is stopping"))
		time.Sleep(p.cfg.DrainDelay.D())
	}
	p.drain(ctx, ends)
	for range left {
		if err := <-served; fault == nil && !errors.Is(err, http.ErrServerClosed) {
			fault = err
		}
	}
	if fault != nil {
		return fmt.Errorf("serve HTTP: %w", fault)
	}
	return nil
}

func (p *Proxy) drain(ctx context.Context, ends []func(context.Context) error) {
	until, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.DrainTimeout.D())
	defer cancel()
	var wait sync.WaitGroup
	for _, end := range ends {
		wait.Go(func() {
			if end(until) != nil {
				p.log.Warn("requests were cut off", "after", p.cfg.DrainTimeout.D())
			}
		})
	}
	wait.Wait()
}
