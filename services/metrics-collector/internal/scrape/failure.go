package scrape

import (
	"context"
	"errors"
	"net"
)

// reason is why a scrape failed, as it stands in metrics.
type reason int

const (
	ok          reason = iota
	connect            // no connection
	tlsFailed          // no connection that both sides trust
	timeout            // no page in time
	status             // not 200
	encoding           // compressed, although we did not ask for it
	tooLarge           // above the size limit
	cut                // ended early, or is no HTTP
	credentials        // a file with a token or certificate cannot be used
	noFigures          // none of the families looked for
	reasons
)

func (r reason) String() string {
	return [...]string{"ok", "connect", "tls", "timeout", "status", "encoding", "too_large", "cut", "credentials", "no_figures"}[r]
}

// failure is a scrape that came to nothing.
type failure struct {
	reason reason
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// classify finds the reason in an error of the HTTP transport.
func classify(err error) *failure {
	if f, is := errors.AsType[*failure](err); is {
		return f
	}
	if op, is := errors.AsType[*net.OpError](err); is {
		switch op.Op {
		case "dial":
			return &failure{connect, err}
		case "remote error": // a TLS alert, such as for our certificate
			return &failure{tlsFailed, err}
		}
	}
	if _, is := errors.AsType[*net.DNSError](err); is {
		return &failure{connect, err}
	}
	if n, is := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || is && n.Timeout() {
		return &failure{timeout, err}
	}
	return &failure{cut, err}
}

// classifyHandshake finds the reason in an error of a TLS handshake.
func classifyHandshake(err error) *failure {
	if errors.Is(err, context.DeadlineExceeded) {
		return &failure{timeout, err}
	}
	return &failure{tlsFailed, err}
}
