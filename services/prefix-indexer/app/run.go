package app

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/follower"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/scorer"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/feed"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/prefix"
)

// Name is the service's name.
const Name = "prefix-indexer"

// Run runs the service until ctx ends. args are the command line without the
// program's name; the addresses of the listeners are printed on stdout.
func Run(ctx context.Context, args []string, stdout io.Writer) error {
	cfg, err := load(args, stdout)
	if err != nil {
		return err
	}
	tel, err := telemetry.New(Name, "", cfg.Config, os.Stderr)
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
	x, err := index.New(cfg.Index)
	if err != nil {
		return nil, conf.Prefix("index", err)
	}
	r := roster.New(roster.DefaultConfig())
	r.OnTable(func(_, now *roster.Table) { x.SetEndpoints(ids(now)) })
	b, err := bus.New(cfg.NATS, cfg.Pool, bus.NewPublisherID(Name), tel)
	if err != nil {
		return nil, err
	}
	f, err := follower.New(r, b, tel)
	if err != nil {
		return nil, err
	}
	placements, err := feed.New(x, b, cfg.Join, tel)
	if err != nil {
		return nil, err
	}
	s, err := newScorer(r, x, tel)
	if err != nil {
		return nil, err
	}
	server, err := rpc.NewServer("grpc", cfg.Listen.GRPC, tel)
	if err != nil {
		return nil, err
	}
	s.Register(server)
	server.OnDrain(s.Drain)

	group := run.NewGroup(tel.Log)
	group.Add("admin", tel.Part(stdout))
	group.Add("bus", b.Part())
	group.Add("follower", f.Part())
	group.Add("placements", placements.Part())
	group.Add("grpc", server.Part(stdout))
	return group, nil
}

func ids(t *roster.Table) []string {
	out := make([]string, t.Len())
	for i := range t.Endpoints {
		out[i] = string(t.Endpoints[i].ID)
	}
	return out
}

func newScorer(r *roster.Roster, x *index.Index, tel *telemetry.Telemetry) (*scorer.Server, error) {
	m, err := newMeters(tel.Meter)
	if err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	if err := showIndex(tel.Meter, x); err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	sc := scorer.DefaultConfig()
	sc.Log, sc.Observe = tel.Log, m.observe
	return scorer.NewServer(Name, tel.Build().Version, []scorerv1.Capability{
		scorerv1.Capability_CAPABILITY_TABLE_REFERENCE,
		scorerv1.Capability_CAPABILITY_EXPLAIN,
		scorerv1.Capability_CAPABILITY_STREAM,
		scorerv1.Capability_CAPABILITY_FOLLOWS_BROADCAST,
	}, []scorer.Type{prefix.New(prefix.Config{Roster: r, Index: x, Abstained: m.abstained, Matched: m.matched})}, sc)
}
