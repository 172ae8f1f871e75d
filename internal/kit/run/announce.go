package run

import (
	"context"
	"fmt"
	"io"
)

type announceKey struct{}

// WithAnnounce returns a context whose listeners report themselves to f as well: f is called by [Announce],
// on the goroutine of the part that listens, with the address as bound (so tests may listen on port 0).
func WithAnnounce(ctx context.Context, f func(service, listener, addr string)) context.Context {
	return context.WithValue(ctx, announceKey{}, f)
}

// Announce reports a bound listener: it prints "<service>: <listener> listening on <addr>" on stdout and calls the
// function of [WithAnnounce], if ctx carries one. addr is "host:port" or "unix:///path".
func Announce(ctx context.Context, stdout io.Writer, service, listener, addr string) {
	if stdout != nil {
		fmt.Fprintf(stdout, "%s: %s listening on %s\n", service, listener, addr)
	}
	if f, ok := ctx.Value(announceKey{}).(func(service, listener, addr string)); ok {
		f(service, listener, addr)
	}
}
