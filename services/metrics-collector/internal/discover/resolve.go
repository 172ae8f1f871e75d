package discover

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"
)

// goneAfter is how many times in a row a name must be told not to exist before its
// endpoints leave.
const goneAfter = 3

// lookup resolves a name to its addresses.
type lookup func(ctx context.Context, name string) ([]netip.Addr, error)

// systemLookup asks the system's resolver.
func systemLookup(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// resolver follows the addresses of one name.
type resolver struct {
	name     string
	interval time.Duration
	timeout  time.Duration
	lookup   lookup
}

// run calls answer with what each question came to, until ctx ends. Addresses are
// ascending and in one spelling.
func (r *resolver) run(ctx context.Context, answer func([]netip.Addr, error)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		asking, cancel := context.WithTimeout(ctx, r.timeout)
		addresses, err := r.lookup(asking, r.name)
		cancel()
		if ctx.Err() != nil {
			return
		}
		for i := range addresses {
			addresses[i] = addresses[i].Unmap().WithZone("")
		}
		slices.SortFunc(addresses, netip.Addr.Compare)
		answer(slices.Compact(addresses), err)
		timer.Reset(r.interval - r.interval/20 + rand.N(r.interval/10+1))
	}
}

// answers is what a name has come to.
type answers struct {
	known     bool // answered or failed once
	addresses []netip.Addr
	missing   int  // times in a row that it did not exist
	failing   bool // the last question failed
}

// take applies an answer. It returns true if the addresses changed.
func (a *answers) take(addresses []netip.Addr, err error) bool {
	first := !a.known
	a.known, a.failing = true, err != nil
	if err != nil {
		var dns *net.DNSError
		if !errors.As(err, &dns) || !dns.IsNotFound {
			return first
		}
		if a.missing++; a.missing < goneAfter {
			return first
		}
		addresses = nil
	} else {
		a.missing = 0
	}
	if slices.Equal(a.addresses, addresses) {
		return first
	}
	a.addresses = addresses
	return true
}
