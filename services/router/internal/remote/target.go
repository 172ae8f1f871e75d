package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// LookupFunc returns the addresses of a host, IPv4 and IPv6, like
// net.Resolver.LookupHost.
type LookupFunc func(ctx context.Context, host string) ([]string, error)

// target is where the replicas of a service are: in this process, at a socket, or at
// hosts and ports.
type target struct {
	socket   string // "unix:///path"
	hosts    []hostPort
	embedded bool // in this process
}

type hostPort struct{ host, port string }

// parseTarget reads "dns:///NAME:PORT", "HOST:PORT,HOST:PORT", "unix:///PATH" or
// "embedded".
func parseTarget(s string) (target, error) {
	if s == embeddedTarget {
		return target{embedded: true}, nil
	}
	if path, ok := strings.CutPrefix(s, "unix://"); ok {
		if !strings.HasPrefix(path, "/") || path == "/" {
			return target{}, fmt.Errorf("a socket must be unix:///PATH, not %q", s)
		}
		return target{socket: s}, nil
	}
	rest := strings.TrimPrefix(s, "dns:///")
	if strings.Contains(rest, "/") {
		return target{}, fmt.Errorf("must be dns:///NAME:PORT, HOST:PORT,…, unix:///PATH or embedded, not %q", s)
	}
	var t target
	for _, part := range strings.Split(rest, ",") {
		host, port, err := net.SplitHostPort(strings.TrimSpace(part))
		if err != nil || host == "" {
			return target{}, fmt.Errorf("must be dns:///NAME:PORT, HOST:PORT,…, unix:///PATH or embedded, not %q", s)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return target{}, fmt.Errorf("port %q of %q must be a number from 1 to 65535", port, s)
		}
		t.hosts = append(t.hosts, hostPort{host, port})
	}
	return t, nil
}

// serverName is what the certificates of the replicas are for: the host, if it is one.
func (t target) serverName() string {
	if len(t.hosts) == 1 {
		return t.hosts[0].host
	}
	return ""
}

// fixed says whether the addresses never change, so that one look is enough.
func (t target) fixed() bool {
	return t.embedded || t.socket != "" || !slices.ContainsFunc(t.hosts, func(h hostPort) bool {
		_, err := netip.ParseAddr(h.host)
		return err != nil
	})
}

// addresses looks up every host. An error goes with what was found in spite of it.
func (t target) addresses(ctx context.Context, lookup LookupFunc) ([]string, error) {
	if t.embedded {
		return []string{embeddedTarget}, nil
	}
	if t.socket != "" {
		return []string{t.socket}, nil
	}
	var found []string
	var errs []error
	for _, h := range t.hosts {
		ips, err := addressesOf(ctx, h.host, lookup)
		if err != nil {
			errs = append(errs, fmt.Errorf("look up %s: %w", h.host, err))
		}
		for _, ip := range ips {
			found = append(found, net.JoinHostPort(ip, h.port))
		}
	}
	slices.Sort(found)
	return slices.Compact(found), errors.Join(errs...)
}

func addressesOf(ctx context.Context, host string, lookup LookupFunc) ([]string, error) {
	if _, err := netip.ParseAddr(host); err == nil {
		return []string{host}, nil
	}
	all, err := lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	return withoutTwins(all), nil
}

// withoutTwins leaves out the IPv6 address of this machine if there is the IPv4 one:
// under both it is one replica and not two.
func withoutTwins(all []string) []string {
	var four []string
	for _, a := range all {
		ip, err := netip.ParseAddr(a)
		switch {
		case err != nil || !ip.IsLoopback():
			return all
		case ip.Is4():
			four = append(four, a)
		}
	}
	if len(four) > 0 {
		return four
	}
	return all
}
