package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

const (
	groupNew = "inference.networking.k8s.io"
	groupOld = "inference.networking.x-k8s.io"
	// HealthCheck names the check that is failing until pools, or the one pool, have
	// been read.
	HealthCheck = "kubernetes"
)

// Cluster is what is followed of the API server for all pools together: the pools, and
// the objects that refer to them.
type Cluster struct {
	cfg    Config
	only   Key // the zero value: all pools
	client *client
	health *telemetry.Health
	meters *meters

	newer, older *source[*pool]
	objectives   *source[*objective]
	rewrites     *source[*rewrite]
	models       *source[*model]

	mu        sync.Mutex
	listeners map[int]func()
	next      int
	pools     func([]Key)
	known     []Key
	told      bool
}

// New returns a cluster that has not been asked for anything yet. It is an error if
// nothing says how the API server is reached.
func New(cfg Config, tel *telemetry.Telemetry) (*Cluster, error) {
	c := &Cluster{cfg: cfg, health: tel.Health, listeners: make(map[int]func())}
	var err error
	if c.client, err = newClient(cfg.Kubeconfig); err != nil {
		return nil, err
	}
	if c.meters, err = newMeters(tel.Meter); err != nil {
		return nil, err
	}
	in, one := "", url.Values{}
	if cfg.PoolName != "" {
		c.only = Key{cfg.namespace(), cfg.PoolName}
		in, one = "namespaces/"+c.only.Namespace+"/", url.Values{"fieldSelector": {"metadata.name=" + c.only.Name}}
	}
	c.newer = newSource(c, tel.Log, groupNew, "v1", in, "inferencepools", one, decodePool)
	c.older = newSource(c, tel.Log, groupOld, "v1alpha2", in, "inferencepools", one, decodePool)
	c.objectives = newSource(c, tel.Log, groupOld, "v1alpha2", in, "inferenceobjectives", nil, decodeObjective)
	c.rewrites = newSource(c, tel.Log, groupOld, "v1alpha2", in, "inferencemodelrewrites", nil, decodeRewrite)
	c.models = newSource(c, tel.Log, groupOld, "v1alpha2", in, "inferencemodels", nil, decodeModel)
	c.health.Set(HealthCheck, fmt.Errorf("the API server at %s has not been read yet", c.client.base))
	return c, nil
}

func newSource[T any](c *Cluster, log *slog.Logger, group, version, in, resource string, query url.Values, decode func(json.RawMessage) (T, error)) *source[T] {
	return &source[T]{
		resource: resource + "." + group, path: "/apis/" + group + "/" + version + "/" + in + resource, query: query, optional: true,
		decode: decode, notify: c.changed, client: c.client, log: log, meters: c.meters,
	}
}

// OnPools has all pools that there are told, ascending, once they have been read and
// whenever that changes. Call it before Part runs.
func (c *Cluster) OnPools(f func([]Key)) { c.pools = f }

// Part follows the API server until its context ends. It is ready at once: whether it
// has read anything is told by the health check.
func (c *Cluster) Part() run.Part {
	return func(ctx context.Context, ready func()) error {
		ready()
		var sources sync.WaitGroup
		sources.Go(func() { c.newer.run(ctx) })
		sources.Go(func() { c.older.run(ctx) })
		sources.Go(func() { c.objectives.run(ctx) })
		sources.Go(func() { c.rewrites.run(ctx) })
		sources.Go(func() { c.models.run(ctx) })
		sources.Wait()
		c.client.close()
		return nil
	}
}

// listen has f called after every change, until the function that is returned is called.
func (c *Cluster) listen(f func()) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.next
	c.next++
	c.listeners[n] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.listeners, n)
	}
}

// changed hands news on.
func (c *Cluster) changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.caughtUp()
	switch {
	case err == nil && !c.told:
		c.told = true
		c.health.Set(HealthCheck, nil)
	case !c.told:
		c.health.Set(HealthCheck, err)
	}
	if c.told && c.pools != nil {
		if keys := c.keys(); c.known == nil || !slices.Equal(keys, c.known) {
			c.known = keys
			c.pools(keys)
		}
	}
	for _, f := range c.listeners {
		f()
	}
}

// caughtUp says what has not been read, nil if all has.
func (c *Cluster) caughtUp() error {
	for _, state := range []func() (bool, error){c.newer.state, c.older.state, c.objectives.state, c.rewrites.state, c.models.state} {
		if synced, err := state(); !synced {
			return cmp.Or(err, fmt.Errorf("the API server at %s has not been read yet", c.client.base))
		}
	}
	return nil
}

// keys are all pools, ascending; never nil.
func (c *Cluster) keys() []Key {
	set := make(map[Key]bool)
	for _, s := range []*source[*pool]{c.newer, c.older} {
		s.each(func(p *pool) { set[p.key] = true })
	}
	keys := append([]Key{}, slices.SortedFunc(maps.Keys(set), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})...)
	return keys
}

// find returns a pool, of the newer generation if both have it; nil if there is none.
func (c *Cluster) find(key Key) (found *pool) {
	for _, s := range []*source[*pool]{c.older, c.newer} {
		s.each(func(p *pool) {
			if p.key == key {
				found = p
			}
		})
	}
	return found
}
