package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/kube"
)

const (
	poolsCheck = "pools"
	// farewell is how long a pool that is gone is still told to be empty: longer than
	// anybody holds a table that is not repeated.
	farewell = 10 * time.Second
	// restartAfter is the wait before a pool whose parts have failed is tried again.
	restartAfter = 5 * time.Second
)

// pools collects for all the pools of a cluster, each with a bus, a fleet and a scraper
// of its own, so that none can be in another's way.
type pools struct {
	cfg     Config
	cluster *kube.Cluster
	tel     *telemetry.Telemetry
	count   metric.Int64Gauge

	mu     sync.Mutex
	wanted []kube.Key // nil: not known yet
	news   chan struct{}

	// Of the part alone.
	running map[kube.Key]*running
	ready   bool
}

// running is a pool that is collected for.
type running struct {
	tel   *telemetry.Telemetry
	stop  context.CancelFunc
	ended chan struct{}
	gone  time.Time // when it was no longer wanted; zero: it is
	again time.Time // when to try again, if it has failed
}

func newPools(cfg Config, cluster *kube.Cluster, tel *telemetry.Telemetry) (*pools, error) {
	ps := &pools{cfg: cfg, cluster: cluster, tel: tel, news: make(chan struct{}, 1), running: make(map[kube.Key]*running)}
	var err error
	ps.count, err = tel.Meter.Int64Gauge("pointsman_metrics_collector_pools", metric.WithDescription("InferencePools that are collected for."))
	tel.Health.Set(poolsCheck, errors.New("pools are not known yet"))
	cluster.OnPools(ps.set)
	return ps, err
}

// set takes the pools that there are now.
func (ps *pools) set(keys []kube.Key) {
	ps.mu.Lock()
	ps.wanted = keys
	ps.mu.Unlock()
	select {
	case ps.news <- struct{}{}:
	default: // it will look anyway
	}
}

// part collects until its context ends.
func (ps *pools) part() run.Part {
	return func(ctx context.Context, ready func()) error {
		ready()
		ticker := time.NewTicker(readyInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				for _, r := range ps.running {
					r.stop()
				}
				for _, r := range ps.running {
					<-r.ended
				}
				return nil
			case <-ps.news:
			case <-ticker.C:
			}
			ps.look(ctx, time.Now())
		}
	}
}

// look starts and stops pools, and judges readiness.
func (ps *pools) look(ctx context.Context, now time.Time) {
	ps.mu.Lock()
	wanted := ps.wanted
	ps.mu.Unlock()
	if wanted == nil {
		return
	}
	there := make(map[kube.Key]bool, len(wanted))
	for _, key := range wanted {
		there[key] = true
		if r := ps.running[key]; r != nil {
			r.gone = time.Time{}
			continue
		}
		ps.running[key] = ps.start(ctx, key)
	}
	for key, r := range ps.running {
		if !there[key] && r.gone.IsZero() {
			r.gone = now
		}
		select {
		case <-r.ended:
			if r.again.IsZero() {
				r.again = now.Add(restartAfter)
			}
			if now.After(r.again) {
				delete(ps.running, key)
			}
		default:
			if !r.gone.IsZero() && now.Sub(r.gone) > farewell {
				r.stop()
			}
		}
	}
	ps.count.Record(ctx, int64(len(wanted)))
	ps.judge()
}

// judge makes the service ready once every pool that there was has been caught up with.
// It stays ready: pools that come later are no reason to take a collector out.
func (ps *pools) judge() {
	if ps.ready {
		return
	}
	var reasons []error
	for key, r := range ps.running {
		if ok, why := r.tel.Health.Ready(); !ok {
			reasons = append(reasons, fmt.Errorf("%s: %v", key, why))
		}
	}
	ps.ready = len(reasons) == 0
	ps.tel.Health.Set(poolsCheck, errors.Join(reasons...))
}

// start begins to collect for a pool.
func (ps *pools) start(ctx context.Context, key kube.Key) *running {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{stop: stop, ended: make(chan struct{})}
	own, done, err := ps.tel.Child("pool", key.String())
	if err != nil {
		ps.tel.Log.Error("a pool cannot be collected for; trying again", "pool", key.String(), "error", err)
		r.tel = ps.tel
		close(r.ended)
		stop()
		return r
	}
	r.tel = own
	go func() {
		defer close(r.ended)
		defer done()
		defer stop()
		if err := ps.collect(ctx, key, own); err != nil {
			own.Log.Error("collecting for the pool has ended; trying again", "error", err)
		}
	}()
	return r
}

func (ps *pools) collect(ctx context.Context, key kube.Key, own *telemetry.Telemetry) error {
	p, err := newPool(ps.cfg, key.String(), own)
	if err != nil {
		return err
	}
	following, err := ps.cluster.Pool(key, own, p.found, p.usePolicy)
	if err != nil {
		return err
	}
	group := run.NewGroup(own.Log)
	group.Add("discovery", following.Part())
	p.addTo(group)
	return group.Run(ctx)
}
