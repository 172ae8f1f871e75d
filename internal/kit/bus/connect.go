package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

const (
	connectTimeout = 2 * time.Second
	echoTimeout    = 5 * time.Second
	// A connection that died without a word is noticed after two pings.
	pingInterval = 5 * time.Second
	mostPings    = 2
	writeTimeout = 2 * time.Second
)

// link is one connection from its making to its end. nats.go's own reconnecting
// is not used: it would buffer, keep credentials, and make the first connection
// a special case.
type link struct {
	nc     *nats.Conn
	closed chan struct{}

	mu  sync.Mutex
	err error // why it was lost
}

func (l *link) setReason(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *link) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		return errors.New("the connection was closed")
	}
	return l.err
}

// close ends the connection and waits until its callbacks are done.
func (l *link) close() {
	l.nc.Close()
	<-l.closed
}

// connect makes a connection, all subscriptions on it, and sees that a message
// comes back.
func (b *Bus) connect(ctx context.Context) (*link, error) {
	l := &link{closed: make(chan struct{})}
	probe, deny := context.WithCancelCause(ctx)
	defer deny(nil)
	opts, err := b.options(ctx, l, deny)
	if err != nil {
		return nil, err
	}
	if l.nc, err = nats.Connect(b.cfg.URL, opts...); err != nil {
		if errors.Is(err, nats.ErrNoServers) {
			err = l.reason() // nats.go does not say why
		}
		return nil, fmt.Errorf("connect: %w", err)
	}
	l.setReason(nil) // of a server that was tried before
	for _, in := range b.inlets {
		if err := in.open(l.nc); err != nil {
			l.close()
			return nil, fmt.Errorf("subscribe: %w", err)
		}
	}
	if err := b.echo(probe, l.nc); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (b *Bus) options(ctx context.Context, l *link, deny context.CancelCauseFunc) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name(b.id),
		nats.NoReconnect(),
		nats.ReconnectBufSize(-1),
		nats.IgnoreDiscoveredServers(),
		nats.Timeout(connectTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(mostPings),
		nats.FlusherTimeout(writeTimeout),
		nats.SetCustomDialer(dialer{ctx, l}),
		// Answers come in below the pool's subject, so one permission is enough.
		nats.CustomInboxPrefix(b.prefix + "inbox." + Token(b.id)),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				l.setReason(err)
			}
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(l.closed) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				deny(err)
			}
			b.trouble(sub, err)
		}),
	}
	if b.cfg.CredsFile != "" {
		opts = append(opts, nats.UserCredentials(b.cfg.CredsFile))
	}
	if b.cfg.User != "" {
		opts = append(opts, nats.UserInfo(b.cfg.User, string(b.cfg.Password)))
	}
	secure, err := b.cfg.TLS.Client()
	if err != nil {
		return nil, conf.Prefix("nats", err)
	}
	if secure != nil {
		opts = append(opts, nats.Secure(secure))
	}
	return opts, nil
}

// echo asks itself a question on a subject of its own. That proves leave to
// publish, to subscribe and to receive answers: a subject that is not what it
// looks like would otherwise be silent for ever.
func (b *Bus) echo(ctx context.Context, nc *nats.Conn) error {
	subject := b.prefix + "echo." + Token(b.id)
	ctx, cancel := context.WithTimeout(ctx, echoTimeout)
	defer cancel()
	explain := func(err error) error {
		return fmt.Errorf("a message to %s does not come back; allow this user to publish and subscribe on %s>: %w", subject, b.prefix, err)
	}
	sub, err := nc.Subscribe(subject, func(m *nats.Msg) {
		// A failure shows as a missing answer.
		_ = m.Respond(m.Data)
	})
	if err != nil {
		return explain(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	_, err = nc.RequestWithContext(ctx, subject, nil)
	// Errors for what was sent before the answer have been read before it, and
	// they say more than its absence.
	if last := nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
		return explain(last)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return explain(err)
	}
	return nil
}

// trouble handles what nats.go reports outside of any call.
func (b *Bus) trouble(sub *nats.Subscription, err error) {
	subject := Subject("")
	if sub != nil {
		subject = b.noun(sub.Subject)
	}
	kind := kindOther
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		kind = kindSlowConsumer
	case errors.Is(err, nats.ErrPermissionViolation):
		kind = kindPermission
	}
	b.meters.fault(subject, kind)
	if b.notes.due(kind+string(subject), err.Error(), time.Now()) {
		b.log.Warn("trouble on the bus", "subject", string(subject), "kind", kind, "error", err)
	}
	if kind == kindSlowConsumer {
		b.resetDue()
	}
}

// dialer ends dialling when the bus stops, and notes why it fails.
type dialer struct {
	ctx  context.Context
	link *link
}

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	nd := net.Dialer{Timeout: connectTimeout}
	conn, err := nd.DialContext(d.ctx, network, address)
	if err != nil {
		d.link.setReason(err)
	}
	return conn, err
}
