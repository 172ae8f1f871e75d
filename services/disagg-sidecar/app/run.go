package app

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/disagg-sidecar/internal/allow"
	"github.com/pointsman/pointsman/services/disagg-sidecar/internal/proxy"
)

// Name is the service's name.
const Name = "disagg-sidecar"

// Run runs the service until ctx ends. args are the command line without the program's
// name; the addresses of the listeners are printed on stdout.
func Run(ctx context.Context, args []string, stdout io.Writer) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	tel, err := telemetry.New(Name, "", o.Telemetry, os.Stderr)
	if err != nil {
		return err
	}
	for _, name := range o.ignored {
		tel.Log.Warn("a flag does nothing here", "flag", name)
	}
	g, err := o.group(tel, stdout)
	if err != nil {
		return err
	}
	return g.Run(ctx)
}

// group puts the parts in order. It starts nothing.
func (o *options) group(tel *telemetry.Telemetry, stdout io.Writer) (*run.Group, error) {
	var also []allow.Target
	for _, a := range o.Proxy.Allow.Also {
		if t, ok := allow.Parse(a); ok { // Validate has seen to it
			also = append(also, t)
		}
	}
	list := allow.NewList(also)
	p, err := proxy.New(o.Proxy, list, tel)
	if err != nil {
		return nil, err
	}
	g := run.NewGroup(tel.Log)
	g.StopTimeout = o.Proxy.DrainDelay.D() + o.Proxy.DrainTimeout.D() + 15*time.Second
	g.Add("admin", tel.Part(stdout))
	if !o.Proxy.Allow.Pool {
		tel.Log.Warn("requests may name any address to be called: allow.pool is false")
		g.Add("http", p.Part(stdout))
		return g, nil
	}
	b, err := bus.New(o.NATS, o.Pool, bus.NewPublisherID(Name), tel)
	if err != nil {
		return nil, err
	}
	list.Follow(b, tel.Health, tel.Log)
	g.Add("http", p.Part(stdout)) // before the bus: the model server is served without it
	g.Add("bus", b.Part())
	return g, nil
}
