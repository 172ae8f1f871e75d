package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/discover"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/kube"
)

// Name is the service's name.
const Name = "metrics-collector"

// Run runs the service until ctx ends. args are the command line without the
// program's name; the addresses of the listeners are printed on stdout.
func Run(ctx context.Context, args []string, stdout io.Writer) error {
	cfg, err := load(args, stdout)
	if err != nil {
		return err
	}
	tel, err := telemetry.New(Name, "", cfg.Telemetry, os.Stderr)
	if err != nil {
		return err
	}
	group, err := assemble(cfg, tel, stdout)
	if err != nil {
		return err
	}
	return group.Run(ctx)
}

// assemble makes all parts and puts them in order. It starts nothing.
func assemble(cfg Config, tel *telemetry.Telemetry, stdout io.Writer) (*run.Group, error) {
	group := run.NewGroup(tel.Log)
	group.Add("admin", tel.Part(stdout))
	if !cfg.Kubernetes.On() {
		return group, assembleListed(cfg, tel, group)
	}
	cluster, err := kube.New(cfg.Kubernetes, tel)
	if err != nil {
		return nil, err
	}
	if cfg.Kubernetes.WatchAllPools {
		ps, err := newPools(cfg, cluster, tel)
		if err != nil {
			return nil, err
		}
		group.Add("kubernetes", cluster.Part())
		group.Add("pools", ps.part())
		return group, nil
	}
	p, err := newPool(cfg, cfg.Pool, tel)
	if err != nil {
		return nil, err
	}
	following, err := cluster.Pool(kube.Key{}, tel, p.found, p.usePolicy)
	if err != nil {
		return nil, err
	}
	group.Add("kubernetes", cluster.Part())
	group.Add("discovery", following.Part())
	p.addTo(group)
	return group, nil
}

// assembleListed adds the parts that collect from the endpoints of the configuration.
//
// Discovery comes before the bus, so that a wrong endpoints file is told although NATS
// is away; what is found waits in the fleet until the other collectors were asked.
func assembleListed(cfg Config, tel *telemetry.Telemetry, group *run.Group) error {
	p, err := newPool(cfg, cfg.Pool, tel)
	if err != nil {
		return err
	}
	d, err := discover.New(cfg.Discover, tel, func(targets []*fleet.Target) { p.fleet.Discovered(time.Now(), targets) })
	if err != nil {
		return fmt.Errorf("create discovery: %w", err)
	}
	d.OnPolicy(p.usePolicy)
	group.Add("discovery", d.Part())
	p.addTo(group)
	return nil
}
