package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"google.golang.org/grpc"

	"github.com/pointsman/pointsman/bench/internal/chat"
	"github.com/pointsman/pointsman/bench/internal/fleet"
	"github.com/pointsman/pointsman/bench/internal/floor"
	"github.com/pointsman/pointsman/bench/internal/load"
	"github.com/pointsman/pointsman/internal/kit/run"
)

// runFleet runs fake model servers until ctx ends.
func runFleet(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("bench fleet", flag.ContinueOnError)
	servers := fs.Int("servers", 10, "how many")
	large := fs.Bool("large", true, "metrics pages of a real server's size, 50 KB")
	if err := parse(fs, args, stdout); err != nil {
		return err
	}
	pages, err := fleet.NewPages(chat.Model, *large)
	if err != nil {
		return err
	}
	answer, header := load.Answer()
	f, err := fleet.New(ctx, fleet.Config{Servers: *servers, Pages: pages, Model: chat.Model, Answer: answer, Header: header})
	if err != nil {
		return err
	}
	run.Announce(ctx, stdout, "bench", "servers", strings.Join(f.Addresses(), ","))
	<-ctx.Done()
	return f.Close()
}

// runFloor runs the server that only echoes until ctx ends.
func runFloor(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("bench floor", flag.ContinueOnError)
	address := fs.String("address", "127.0.0.1:0", "where to listen")
	if err := parse(fs, args, stdout); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", *address, err)
	}
	s := grpc.NewServer()
	floor.Server{}.Register(s)
	run.Announce(ctx, stdout, "bench", "extProc", l.Addr().String())
	stop := context.AfterFunc(ctx, s.Stop)
	defer stop()
	if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// runNATS runs a NATS server, with monitoring pages, until ctx ends.
func runNATS(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("bench nats", flag.ContinueOnError)
	if err := parse(fs, args, stdout); err != nil {
		return err
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT, NoSigs: true, NoLog: true, MaxPayload: 1 << 20})
	if err != nil {
		return fmt.Errorf("NATS server: %w", err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		return errors.New("the NATS server did not listen within 10 s")
	}
	run.Announce(ctx, stdout, "bench", "client", s.Addr().String())
	run.Announce(ctx, stdout, "bench", "monitor", s.MonitorAddr().String())
	<-ctx.Done()
	return nil
}
