package app

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/follower"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/admission"
	"github.com/pointsman/pointsman/services/router/internal/decisions"
	"github.com/pointsman/pointsman/services/router/internal/epconfig"
	"github.com/pointsman/pointsman/services/router/internal/fanout"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/front/extproc"
	"github.com/pointsman/pointsman/services/router/internal/front/grpcapi"
	"github.com/pointsman/pointsman/services/router/internal/front/httpproxy"
	"github.com/pointsman/pointsman/services/router/internal/inflight"
	"github.com/pointsman/pointsman/services/router/internal/outcome"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
	"github.com/pointsman/pointsman/services/router/internal/quarantine"
	"github.com/pointsman/pointsman/services/router/internal/remote"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Run runs a router until ctx ends.
func Run(ctx context.Context, args []string, stdout io.Writer) error {
	return RunWith(ctx, args, stdout)
}

// router is all parts of a router.
type router struct {
	options    *options
	tel        *telemetry.Telemetry
	bus        *bus.Bus
	roster     *roster.Roster
	follower   *follower.Follower
	scorers    *remote.Set
	embedded   []bound
	ledger     *outcome.Ledger
	inflight   *inflight.Counts // nil: no Redis is configured
	quarantine *quarantine.Quarantine
	gate       *admission.Gate
	scheduler  *route.Scheduler
	config     *configuration
	engines    engineNotes
	decisions  *decisions.Log
	proxy      *httpproxy.Proxy
	extProc    *extproc.Server
	api        *grpcapi.Server
	grpc       *rpc.Server
}

// build makes the parts and starts none.
func build(o *options) (*router, error) {
	r := &router{options: o, decisions: decisions.NewLog()}
	for _, step := range []func() error{r.buildState, r.buildRouting, r.buildFronts} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// buildState makes what holds and shares state.
func (r *router) buildState() (err error) {
	o := r.options
	if r.tel, err = telemetry.New("router", "", o.Telemetry, os.Stderr); err != nil {
		return err
	}
	r.tel.Health.Set("endpoints", errNoEndpoints)
	for _, n := range o.notes {
		r.tel.Log.Info("a flag of other endpoint pickers is not needed", "flag", n.flag, "instead", n.instead)
	}
	if r.bus, err = bus.New(o.NATS, o.Pool, bus.NewPublisherID("router"), r.tel); err != nil {
		return err
	}
	r.roster = roster.New(roster.Config{StalenessLimit: o.Roster.StalenessLimit.D()})
	if r.follower, err = follower.New(r.roster, r.bus, r.tel); err != nil {
		return err
	}
	r.gate = admission.NewGate(nil)
	r.follower.OnPolicy(r.usePolicy)
	if r.quarantine, err = quarantine.New(quarantine.DefaultConfig(), r.roster.Now); err != nil {
		return err
	}
	r.quarantine.Limit(func(id roster.ID) int64 {
		snap := r.roster.Snapshot()
		if pos, there := snap.Table.Position(id); there {
			return snap.InFlight(pos)
		}
		return 0
	})
	r.roster.OnTable(r.quarantine.Retain)
	r.engines.log = r.tel.Log
	r.roster.OnTable(func(_, after *roster.Table) { r.engines.look(r.scheduler.Config(), after) })
	return nil
}

// buildRouting makes what decides.
func (r *router) buildRouting() (err error) {
	o := r.options
	embedded, err := r.embed()
	if err != nil {
		return err
	}
	if r.scorers, err = remote.New(o.Scorers, remote.Deps{Roster: r.roster, RouterID: r.bus.PublisherID(), Embedded: embedded}, r.tel); err != nil {
		return err
	}
	if r.ledger, err = outcome.New(r.roster, r.bus, reports{r.scorers}, r.tel); err != nil {
		return err
	}
	r.ledger.HurryFor(r.follower.Routers)
	r.scorers.SendPending(r.ledger)
	counts, err := r.countInFlight()
	if err != nil {
		return err
	}
	fan, err := fanout.New(fanout.Config{Timeout: o.Scoring.Timeout.D()}, r.tel.Tracer)
	if err != nil {
		return err
	}
	seen, err := newObserver(r.decisions, r.tel)
	if err != nil {
		return err
	}
	r.scheduler, err = route.NewScheduler(route.Deps{
		Roster: r.roster, Pool: o.Pool, Fan: fan, Ledger: r.ledger, Quarantine: r.quarantine, Observer: seen, Admitter: r.gate, Counts: counts, OtherRouters: r.follower.Routers, Hearing: r.follower.Hearing,
	})
	if err != nil {
		return err
	}
	r.config, err = newConfiguration(r.bus.PublisherID(), o.origin, r.loadConfiguration, r.useConfiguration, r.tel)
	return err
}

// countInFlight makes what counts requests over all routers; nil if no Redis is
// configured.
func (r *router) countInFlight() (route.Counts, error) {
	o := r.options
	if !o.Redis.Redis.Enabled() {
		return nil, nil
	}
	counts, err := inflight.New(o.Redis, o.Pool, r.bus.PublisherID(), r.tel)
	if err != nil {
		return nil, err
	}
	r.inflight = counts
	r.ledger.CountIn(counts)
	r.roster.OnTable(counts.Retain)
	return counts, nil
}

// loadConfiguration makes a configuration of a text.
func (r *router) loadConfiguration(source string, text []byte) (*epconfig.Loaded, error) {
	r.scorers.Loading()
	loaded, err := load(source, text, r.scorers)
	if err != nil {
		return nil, err
	}
	loaded.Warnings = r.options.aboutRedis(source, text, loaded.Warnings)
	return loaded, nil
}

// useConfiguration makes all further requests go by a configuration.
func (r *router) useConfiguration(l *epconfig.Loaded) {
	r.scheduler.Use(l.Config)
	r.engines.look(l.Config, r.roster.Snapshot().Table)
	switch {
	case r.inflight != nil:
		r.inflight.Use(l.Config)
	case inflight.Wanted(l.Config):
		r.tel.Log.Warn("a picker goes by the requests in flight over all routers, but redis.address is not set: it goes by what this router has heard of")
	}
}

// buildFronts makes what callers talk to.
func (r *router) buildFronts() (err error) {
	o := r.options
	if r.proxy, err = httpproxy.New(r.scheduler, r.roster, r.quarantine, r.tel, o.Listen.HTTP); err != nil {
		return err
	}
	salt := edge.NewSalter(o.CacheSalt)
	r.proxy.Heed(r.gate)
	r.proxy.Salt(salt)
	if r.extProc, err = extproc.New(extproc.Deps{
		Decider: r.scheduler, Roster: r.roster, Quarantine: r.quarantine, Objectives: r.gate, Rewrite: r.gate.Rewrite, Salt: salt, Telemetry: r.tel,
	}, o.Listen.ExtProc); err != nil {
		return err
	}
	parser, err := prompt.NewParser(o.Listen.HTTP.Prompt)
	if err != nil {
		return err
	}
	if r.api, err = grpcapi.New(grpcapi.Deps{
		RouterID: r.bus.PublisherID(), Decider: r.scheduler, Describe: describer{parser, r.gate}.describe, Roster: r.roster, StateAge: r.follower.StateAge,
		Quarantine: r.quarantine, Decisions: r.decisions, Scorers: r.scorers.Status, Telemetry: r.tel,
		ConfigStatus: r.config.status, CheckConfig: r.checkConfig,
	}); err != nil {
		return err
	}
	if r.grpc, err = rpc.NewServer("grpc", o.Listen.GRPC, r.tel); err != nil {
		return err
	}
	r.api.Register(r.grpc)
	r.grpc.OnDrain(r.api.EndWatches)
	return nil
}

// run runs the parts: each starts when the ones before it are ready, and stops
// before they do.
func (r *router) run(ctx context.Context, stdout io.Writer) error {
	extProc, err := r.extProc.Part(stdout)
	if err != nil {
		return err
	}
	g := run.NewGroup(r.tel.Log)
	l := &r.options.Listen
	g.StopTimeout = r.options.DrainDelay.D() + max(l.HTTP.DrainTimeout, l.ExtProc.DrainTimeout, l.GRPC.DrainTimeout).D() + 15*time.Second
	g.Add("admin", r.tel.Part(stdout))
	// Probes are answered while endpoints are waited for, and while streams come to their end.
	g.Add("ext_proc health", r.extProc.HealthPart(stdout))
	g.Add("scorers", r.scorers.Part())
	if r.inflight != nil {
		g.Add("redis", r.inflight.ClientPart())
		g.Add("requests in flight", r.inflight.Part())
	}
	g.Add("configuration", r.config.part)
	g.Add("grpc", r.grpc.Part(stdout))
	g.Add("nats", r.bus.Part())
	g.Add("roster", r.follower.Part())
	r.addEmbedded(g)
	g.Add("ledger", r.ledger.Part())
	g.Add("leases", r.endLeases)
	g.Add("endpoints", r.awaitEndpoints)
	g.Add("ext_proc", extProc)
	g.Add("http", r.proxy.Part(stdout))
	g.Add("drain", r.drain)
	return g.Run(ctx)
}

// endLeases ends what gRPC callers have not released, before the ledger leaves.
func (r *router) endLeases(ctx context.Context, ready func()) error {
	ready()
	<-ctx.Done()
	r.api.Close()
	return nil
}

// awaitEndpoints is ready once an endpoint table is known: before that, no request
// could be served. It is so once: a pool that is scaled to zero later is served by a
// router that says so (503), because one that is not ready could not even do that.
func (r *router) awaitEndpoints(ctx context.Context, ready func()) error {
	poll, remind := time.NewTicker(10*time.Millisecond), time.NewTicker(5*time.Second)
	defer poll.Stop()
	defer remind.Stop()
	for r.roster.Snapshot().Len() == 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
		case <-remind.C:
			r.tel.Log.Warn("no endpoints are known yet; is a metrics-collector of this pool running?", "pool", r.options.Pool)
		}
	}
	r.tel.Health.Set("endpoints", nil)
	ready()
	<-ctx.Done()
	return nil
}

var errNoEndpoints = errors.New("no endpoint was known yet; a metrics-collector of this pool tells of them")

// drain is the first to stop: the router says that it is not ready, and goes on for
// as long as those who send to it need to notice.
func (r *router) drain(ctx context.Context, ready func()) error {
	ready()
	<-ctx.Done()
	r.tel.Health.Set("drain", errors.New("the router is stopping"))
	time.Sleep(r.options.DrainDelay.D())
	return nil
}
