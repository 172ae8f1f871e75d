// Command carbon-scorer is a Pointsman scorer that prefers endpoints in regions whose
// power is clean.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pointsman/pointsman/sdk/scorer/simple"
)

const version = "1.0.0"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "carbon-scorer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	cfg := simple.DefaultConfig("carbon", version)
	cfg.Log = slog.Default()
	flags := flag.NewFlagSet("carbon-scorer", flag.ContinueOnError)
	flags.StringVar(&cfg.Address, "listen", "127.0.0.1:9202", "`address`, HOST:PORT or unix:///PATH")
	flags.StringVar(&cfg.Name, "name", cfg.Name, "`name` of the service, in metrics")
	name := flags.String("type", "carbon-scorer", "`type` under which configurations name it")
	file := flags.String("file", "carbon.json", "`file` with the gCO2/kWh of each region")
	period := flags.Duration("period", time.Minute, "`time` between two readings of the file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	g := &grid{path: *file}
	if err := g.read(); err != nil {
		return err
	}
	go g.follow(ctx, *period, func(err error) { cfg.Log.Error("the file is not taken into use", "error", err) })
	s, err := simple.New(cfg, carbonType(*name, g))
	if err != nil {
		return err
	}
	go func() {
		if at := s.Addr(ctx); at != "" {
			fmt.Fprintf(stdout, "%s: grpc listening on %s\n", cfg.Name, at)
		}
	}()
	return s.Run(ctx)
}
