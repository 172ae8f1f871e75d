package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

const podsResource = "pods"

// Pool follows one pool: its object, its pods, and what is said of its requests.
type Pool struct {
	cluster *Cluster
	key     Key
	log     *slog.Logger
	health  *telemetry.Health
	meters  *meters
	tell    func([]Endpoint)
	policy  func(*fleet.Policy)
	wake    chan struct{}

	// Of the part alone.
	now       *pool // as it was last seen; nil: there is none
	pods      *source[*pod]
	before    *source[*pod] // whose pods count until the next have been read
	end       func()        // ends following pods
	told      bool
	complain  string
	curtailed bool   // not all labels are told
	protocol  string // the pool's, about which was told
}

// Pool returns a follower of the cluster's only pool, or with WatchAllPools of the pool
// key. Its health check is "kubernetes", in tel. tell is given all endpoints and policy
// all that is said of requests, one call at a time: when everything has been read, and
// whenever it may have changed.
func (c *Cluster) Pool(key Key, tel *telemetry.Telemetry, tell func([]Endpoint), policy func(*fleet.Policy)) (*Pool, error) {
	if c.only != (Key{}) {
		key = c.only
	}
	m, err := newMeters(tel.Meter)
	if err != nil {
		return nil, err
	}
	p := &Pool{cluster: c, key: key, log: tel.Log, health: tel.Health, meters: m, tell: tell, policy: policy, wake: make(chan struct{}, 1)}
	p.health.Set(HealthCheck, fmt.Errorf("InferencePool %s has not been read yet", key))
	return p, nil
}

// Part follows the pool until its context ends. It is ready at once.
func (p *Pool) Part() run.Part {
	return func(ctx context.Context, ready func()) error {
		defer p.cluster.listen(p.notify)()
		var sources sync.WaitGroup
		defer sources.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ready()
		p.notify()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-p.wake:
				p.look(ctx, &sources)
			}
		}
	}
}

func (p *Pool) notify() {
	select {
	case p.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// look tells what there is now.
func (p *Pool) look(ctx context.Context, sources *sync.WaitGroup) {
	if err := p.cluster.ready(); err != nil {
		if !p.told {
			p.health.Set(HealthCheck, err)
		}
		return
	}
	found := p.cluster.find(p.key)
	p.follow(ctx, found, sources)
	p.policy(p.cluster.policy(p.key))
	if found == nil {
		p.unhealthy("missing", fmt.Errorf("InferencePool %s does not exist; create it, or check poolName and poolNamespace", p.key))
		p.tell(nil)
		return
	}
	if found.fault != nil {
		p.unhealthy("invalid", fmt.Errorf("InferencePool %s cannot be used: %w", p.key, found.fault))
		p.tell(nil)
		return
	}
	synced, err := p.pods.state()
	switch {
	case synced:
		p.before = nil
	case p.before == nil:
		if err == nil {
			err = fmt.Errorf("pods of InferencePool %s have not been read yet", p.key)
		}
		p.health.Set(HealthCheck, err)
		return
	}
	endpoints := p.endpoints()
	if len(endpoints) > roster.MaxEndpoints {
		p.unhealthy("large", fmt.Errorf("%d endpoints are more than the %d of one pool: split the pool", len(endpoints), roster.MaxEndpoints))
		return
	}
	if p.complain != "" {
		p.log.Info("the pool can be used")
		p.complain = ""
	}
	p.aboutProtocol(found.protocol)
	p.told = true
	p.health.Set(HealthCheck, nil)
	p.tell(endpoints)
}

// aboutProtocol tells, when it begins, that the pool's pods are said to speak what they are
// not spoken to with here: gateways heed that, while the router's own HTTP front and the
// collector send HTTP/1.1, which servers of h2c answer as a rule.
func (p *Pool) aboutProtocol(protocol string) {
	if protocol == p.protocol {
		return
	}
	p.protocol = protocol
	switch protocol {
	case "", protocolHTTP:
	case protocolH2C:
		p.log.Warn("the pool's appProtocol is for gateways: the router's own HTTP front and the collector speak HTTP/1.1 to its pods, which must take that as well",
			"pool", p.key.String(), "appProtocol", protocol)
	default:
		p.log.Warn("the pool's appProtocol is not known here, and its pods are spoken to by HTTP/1.1", "pool", p.key.String(), "appProtocol", fmt.Sprintf("%.64s", protocol), "known", protocolHTTP+", "+protocolH2C)
	}
}

// unhealthy tells why there is nothing to tell, when it begins.
func (p *Pool) unhealthy(what string, err error) {
	p.health.Set(HealthCheck, errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")))
	if p.complain != what {
		p.complain = what
		p.meters.fault("inferencepools", invalid)
		p.log.Warn("the pool cannot be used; waiting until it can", "pool", p.key.String(), "error", err)
	}
}

// follow begins to follow the pods of a pool that is not the one of before.
func (p *Pool) follow(ctx context.Context, found *pool, sources *sync.WaitGroup) {
	same := p.now != nil && found != nil && p.now.labelSelector() == found.labelSelector() && (p.now.fault == nil) == (found.fault == nil)
	p.now = found
	if same || p.now == nil && p.end == nil {
		return
	}
	if p.end != nil {
		p.end()
		p.end = nil
		if synced, _ := p.pods.state(); synced {
			p.before = p.pods
		}
	}
	if found == nil || found.fault != nil {
		p.pods, p.before = nil, nil
		return
	}
	following, cancel := context.WithCancel(ctx)
	p.end = cancel
	path, query := found.pods()
	s := &source[*pod]{
		resource: podsResource, path: path, query: query, decode: decodePod, notify: p.notify,
		client: p.cluster.client, log: p.log, meters: p.meters,
	}
	p.pods = s
	sources.Go(func() { s.run(following) })
}

// endpoints are all there are, in no order.
func (p *Pool) endpoints() []Endpoint {
	from := p.pods
	if p.before != nil {
		from = p.before
	}
	var out []Endpoint
	var curtailed *pod
	from.each(func(pod *pod) {
		out = append(out, pod.endpoints(p.now, p.cluster.cfg.AddressFamily)...)
		if len(pod.told) < len(pod.labels) {
			curtailed = pod
		}
	})
	if curtailed != nil && !p.curtailed {
		p.meters.fault(podsResource, invalid)
		p.log.Warn("a pod has more labels than are told; its longest are left out, and filters do not see them", "pod", curtailed.name, "labels", len(curtailed.labels), "told", len(curtailed.told), "limitBytes", maxLabelBytes)
	}
	p.curtailed = curtailed != nil
	return slices.Clip(out)
}

// ready is nil once pools and objects have been read.
func (c *Cluster) ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told {
		return nil
	}
	return c.caughtUp()
}
