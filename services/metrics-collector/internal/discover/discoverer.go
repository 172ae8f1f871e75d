package discover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/engine"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

const healthCheck = "discovery"

var errNotYet = errors.New("endpoints are not discovered yet")

// Discoverer finds endpoints.
type Discoverer struct {
	cfg    Config
	tell   func([]*fleet.Target)
	policy func(*fleet.Policy) // nil: nobody wants to know
	began  time.Time
	lookup lookup
	log    *slog.Logger
	health *telemetry.Health
	faults metric.Int64Counter

	mu     sync.Mutex
	file   *List // nil: none
	names  map[string]*name
	told   bool
	warned map[string]bool // values of the engine label that are not known
	over   bool            // the last set was too large
}

// name is a DNS name that is followed.
type name struct {
	answers
	cancel context.CancelFunc
}

// New returns a discoverer that hands each new set of endpoints to tell, all of them,
// one call at a time.
func New(cfg Config, tel *telemetry.Telemetry, tell func([]*fleet.Target)) (*Discoverer, error) {
	d := &Discoverer{
		cfg: cfg, tell: tell, lookup: systemLookup, log: tel.Log, health: tel.Health,
		names: make(map[string]*name), warned: make(map[string]bool), began: time.Now(),
	}
	var err error
	d.faults, err = tel.Meter.Int64Counter("pointsman_metrics_collector_discovery_errors_total",
		metric.WithDescription("Times that a source of endpoints could not be used, by source."))
	d.health.Set(healthCheck, errNotYet)
	return d, err
}

// OnPolicy has what is said of requests handed to use, all of it, before the endpoints
// are told first and whenever it may have changed. Call it before Part runs.
func (d *Discoverer) OnPolicy(use func(*fleet.Policy)) { d.policy = use }

// tellPolicy is called with mu held.
func (d *Discoverer) tellPolicy() {
	if d.policy == nil {
		return
	}
	p := policyOf(d.lists())
	p.Changed = d.began
	if d.cfg.EndpointsFile != "" {
		if written, err := os.Stat(d.cfg.EndpointsFile); err == nil { // it was read just now
			p.Changed = written.ModTime()
		}
	}
	d.policy(p)
}

// Part finds endpoints until its context ends. An endpoints file that cannot be used
// at the start is an error.
func (d *Discoverer) Part() run.Part {
	return func(ctx context.Context, ready func()) error {
		ctx, cancel := context.WithCancel(ctx)
		var parts sync.WaitGroup
		defer parts.Wait()
		defer cancel()
		if d.cfg.EndpointsFile != "" {
			list, file, err := d.readFile()
			if err != nil {
				return err
			}
			d.file = list
			parts.Go(func() {
				d.followFile(ctx, file, func(l *List) { d.fileChanged(ctx, &parts, l) })
			})
		}
		d.mu.Lock()
		d.tellPolicy()
		d.follow(ctx, &parts)
		d.merge()
		d.mu.Unlock()
		ready()
		<-ctx.Done()
		return nil
	}
}

func (d *Discoverer) fileChanged(ctx context.Context, parts *sync.WaitGroup, list *List) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log.Info("endpoints file was read", "file", d.cfg.EndpointsFile, "endpoints", len(list.Endpoints), "names", len(list.DNS))
	d.file = list
	d.tellPolicy()
	d.follow(ctx, parts)
	d.merge()
}

func (d *Discoverer) fileFailed(err error) {
	d.log.Warn("endpoints file cannot be used; its endpoints stay as they were", "file", d.cfg.EndpointsFile, "error", err)
	d.fault("file")
}

func (d *Discoverer) fault(source string) {
	d.faults.Add(context.Background(), 1, metric.WithAttributes(attribute.String("source", source)))
}

// lists are all that is known, in the order in which it counts.
func (d *Discoverer) lists() []*List {
	if d.file == nil {
		return []*List{&d.cfg.List}
	}
	return []*List{&d.cfg.List, d.file}
}

// follow starts and ends following names.
func (d *Discoverer) follow(ctx context.Context, parts *sync.WaitGroup) {
	wanted := make(map[string]bool)
	for _, l := range d.lists() {
		for i := range l.DNS {
			wanted[l.DNS[i].Name] = true
		}
	}
	for host, n := range d.names {
		if !wanted[host] {
			n.cancel()
			delete(d.names, host)
		}
	}
	for host := range wanted {
		if d.names[host] != nil {
			continue
		}
		following, cancel := context.WithCancel(ctx)
		n := &name{cancel: cancel}
		d.names[host] = n
		r := &resolver{name: host, interval: d.cfg.Discovery.DNSInterval.D(), timeout: d.cfg.Discovery.DNSTimeout.D(), lookup: d.lookup}
		parts.Go(func() {
			r.run(following, func(addresses []netip.Addr, err error) { d.answered(host, n, addresses, err) })
		})
	}
}

func (d *Discoverer) answered(host string, n *name, addresses []netip.Addr, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[host] != n {
		return // no longer wanted
	}
	was := n.failing
	changed := n.take(addresses, err)
	switch {
	case err != nil:
		d.fault("dns")
		if !was {
			d.log.Warn("name does not resolve; its endpoints stay as they were", "name", host, "error", err)
		}
	case was:
		d.log.Info("name resolves again", "name", host, "addresses", len(addresses))
	}
	if changed {
		d.merge()
	}
}

// merge puts the sources together and tells the result. Called with mu held.
func (d *Discoverer) merge() {
	for _, n := range d.names {
		if !n.known && !d.told {
			return
		}
	}
	var targets []*fleet.Target
	taken := make(map[string]bool)
	add := func(t *fleet.Target, traits *Traits) {
		if taken[t.Key()] || taken[t.Address()] {
			return
		}
		taken[t.Key()], taken[t.Address()] = true, true
		targets = append(targets, t)
		d.warnEngine(traits)
	}
	for _, l := range d.lists() {
		for i := range l.Endpoints {
			add(l.Endpoints[i].target(d.cfg.Defaults), &l.Endpoints[i].Traits)
		}
	}
	for _, l := range d.lists() {
		for i := range l.DNS {
			for _, a := range d.names[l.DNS[i].Name].addresses {
				add(l.DNS[i].target(a.String(), d.cfg.Defaults), &l.DNS[i].Traits)
			}
		}
	}
	if len(targets) > roster.MaxEndpoints {
		d.refuse(len(targets))
		return
	}
	d.told, d.over = true, false
	d.health.Set(healthCheck, nil)
	d.tell(targets)
}

// refuse keeps the endpoints there were, because a table holds no more.
func (d *Discoverer) refuse(n int) {
	d.fault("merge")
	if !d.over {
		d.log.Error("too many endpoints for one pool; the endpoints stay as they were: split the pool", "endpoints", n, "limit", roster.MaxEndpoints)
	}
	d.over = true
	if !d.told {
		d.health.Set(healthCheck, fmt.Errorf("%d endpoints are more than the %d of one pool: split the pool", n, roster.MaxEndpoints))
	}
}

// warnEngine tells once of a value of the engine label that says nothing to us.
func (d *Discoverer) warnEngine(t *Traits) {
	value := t.engineLabel()
	if _, known := engine.Parse(value); known || value == "" || t.Engine != "" || d.warned[value] {
		return
	}
	d.warned[value] = true
	d.log.Warn("engine in a label is not known; the page decides", "label", engine.TypeLabel, "value", value, "known", engine.Names())
}
