package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pointsman/pointsman/disagg"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

const (
	// lookEvery is how often names of pods are looked up, and so for how long a pod is sought
	// at the address that it had before.
	lookEvery = 30 * time.Second
	// lookAgain is when they are looked up again while one has not been found yet.
	lookAgain = time.Second
	// lookFor is how long that may take.
	lookFor = 5 * time.Second
)

// pods knows at which addresses MoRI-IO's engines find each other: they know each other by
// addresses, and configurations may have names.
type pods struct {
	as     *disagg.MoRIIO // as it was configured; nil: off
	now    atomic.Pointer[disagg.MoRIIO]
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	log    *slog.Logger
	health *telemetry.Health
	looked func(why string)

	every, again time.Duration
}

// newPods returns pods that are known at once if they have no names.
func newPods(as *disagg.MoRIIO, tel *telemetry.Telemetry, looked func(why string)) *pods {
	p := &pods{
		as: as, log: tel.Log, health: tel.Health, looked: looked, every: lookEvery, again: lookAgain,
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
	}
	if as != nil && !p.named() {
		p.now.Store(as)
	}
	return p
}

// known is false while nobody can be told where the pods are.
func (p *pods) known() bool { return p.as == nil || p.now.Load() != nil }

// named is true if there are names to be looked up.
func (p *pods) named() bool {
	for _, list := range [...][]string{{p.as.DecodeHost}, p.as.PrefillHosts, p.as.DecodeHosts} {
		for _, host := range list {
			if _, err := netip.ParseAddr(host); err != nil {
				return true
			}
		}
	}
	return false
}

// follow looks names up until its context ends or it is stopped. Before all are found the
// sidecar is not ready; after that addresses stay in use for which there are no new ones.
func (p *pods) follow(ctx context.Context) (stop func()) {
	if p.as == nil || !p.named() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	p.look(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			wait := p.every
			if !p.known() {
				wait = p.again
			}
			t := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-t.C:
				p.look(ctx)
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

// look looks all names up once.
func (p *pods) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	found, err := p.found(ctx)
	switch {
	case err == nil:
		p.looked("ok")
		p.now.Store(found)
		p.health.Set("moriio", nil)
		p.health.Note("moriio", nil)
	case ctx.Err() != nil && context.Cause(ctx) == context.Canceled: //nolint:errorlint // it is that one
	case p.known():
		p.looked("failed")
		p.log.Warn("the old addresses of MoRI-IO's pods stay in use", "error", err)
		p.health.Note("moriio", fmt.Errorf("old addresses are in use: %w", err))
	default:
		p.looked("failed")
		p.health.Set("moriio", err)
	}
}

// found returns what was configured with an address in place of each name.
func (p *pods) found(ctx context.Context) (*disagg.MoRIIO, error) {
	out := *p.as
	var err error
	if out.DecodeHost, err = p.address(ctx, p.as.DecodeHost); err != nil {
		return nil, err
	}
	for _, list := range [...]*[]string{&out.PrefillHosts, &out.DecodeHosts} {
		var all []string
		for _, host := range *list {
			address, err := p.address(ctx, host)
			if err != nil {
				return nil, err
			}
			all = append(all, address)
		}
		*list = all
	}
	return &out, nil
}

// address returns the address of a host, of IPv4 if it has one.
func (p *pods) address(ctx context.Context, host string) (string, error) {
	if _, err := netip.ParseAddr(host); err == nil {
		return host, nil
	}
	all, err := p.lookup(ctx, host)
	if err != nil {
		return "", fmt.Errorf("look up %s: %w", host, err)
	}
	if len(all) == 0 {
		return "", fmt.Errorf("look up %s: it has no address", host)
	}
	for _, a := range all {
		if a.Unmap().Is4() {
			return a.Unmap().String(), nil
		}
	}
	return all[0].String(), nil
}
