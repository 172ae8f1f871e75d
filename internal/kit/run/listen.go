package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

const unixScheme = "unix://"

// Listen opens a listener at address: "host:port" (host may be empty: all interfaces; port 0: a free one) or
// "unix:///path/of.sock". A socket file that a dead process left behind is removed first; one that somebody
// listens on is not.
//
// key is the configuration key that holds the address. An error is one line that names key and address and says what to do.
func Listen(ctx context.Context, key, address string) (net.Listener, error) {
	l, err := listen(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("%s: listen on %s: %w", key, address, advise(key, address, err))
	}
	return l, nil
}

// Address returns what l is bound to, as [Announce] prints it: "host:port" or "unix:///path".
func Address(l net.Listener) string {
	if a := l.Addr(); a.Network() == "unix" {
		return unixScheme + a.String()
	}
	return l.Addr().String()
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	path, unix := strings.CutPrefix(address, unixScheme)
	if !unix {
		return lc.Listen(ctx, "tcp", address)
	}
	l, err := lc.Listen(ctx, "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && abandoned(ctx, path) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove the socket of a dead process: %w", err)
		}
		return lc.Listen(ctx, "unix", path)
	}
	return l, err
}

// abandoned tells whether path is a socket that nobody listens on.
func abandoned(ctx context.Context, path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return false
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// advise strips the layers that repeat the address from err and adds what to do about it.
func advise(key, address string, err error) error {
	const sample = "HOST:PORT"
	hint := fmt.Sprintf("set another with --set %s=%s", key, sample)
	unix := strings.HasPrefix(address, unixScheme)
	var addrErr *net.AddrError
	var dnsErr *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && unix:
		return fmt.Errorf("%w; choose another with --set %s=unix:///PATH or stop the process that holds it", syscall.EADDRINUSE, key)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w; choose another with --set %s=%s or stop the process that holds it", syscall.EADDRINUSE, key, sample)
	case errors.Is(err, syscall.EACCES) && unix:
		return fmt.Errorf("%w; the directory must be writable for this user", syscall.EACCES)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w; ports below 1024 are the system's, %s", syscall.EACCES, hint)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w on this machine; %s", syscall.EADDRNOTAVAIL, hint)
	case errors.Is(err, syscall.ENOENT) && unix:
		return fmt.Errorf("%w; create the directory first", syscall.ENOENT)
	case errors.Is(err, syscall.EINVAL) && unix:
		return fmt.Errorf("%w; the path of a socket must be shorter than 108 bytes", syscall.EINVAL)
	case errors.As(err, &dnsErr):
		return fmt.Errorf("%s is not known: %s; %s", dnsErr.Name, dnsErr.Err, hint)
	case errors.As(err, &addrErr):
		return fmt.Errorf("%s; it must be %s, such as 127.0.0.1:8080 or :8080", addrErr.Err, sample)
	}
	return err
}
