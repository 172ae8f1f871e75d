package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pointsman/pointsman/internal/kit/run"
	collector "github.com/pointsman/pointsman/services/metrics-collector/app"
	prefixindexer "github.com/pointsman/pointsman/services/prefix-indexer/app"
	router "github.com/pointsman/pointsman/services/router/app"
	scorerkv "github.com/pointsman/pointsman/services/scorer-kv/app"
	scorerqueue "github.com/pointsman/pointsman/services/scorer-queue/app"
)

// Run starts everything and runs until ctx ends.
func Run(ctx context.Context, args []string, stdout io.Writer) error {
	cfg, err := parse(args, stdout)
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		return run.UsageError{Err: fmt.Errorf("--log %q: want debug, info, warn or error", cfg.LogLevel)}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	m := &machine{cfg: cfg, book: newBook(), log: log, stdout: stdout}
	g := run.NewGroup(log)
	g.Add("nats", m.nats)
	for i := range cfg.Servers {
		g.Add(fmt.Sprintf("model server %d", i+1), m.modelServer(i))
	}
	g.Add("metrics-collector", m.book.service("metrics-collector", collector.Run, m.collectorArgs, "admin"))
	entry := router.Run
	if cfg.Embedded {
		entry = withScorers
	} else {
		g.Add("scorer-queue", m.book.service("scorer-queue", scorerqueue.Run, m.scorerArgs, "grpc"))
		g.Add("scorer-kv", m.book.service("scorer-kv", scorerkv.Run, m.scorerArgs, "grpc"))
		g.Add("prefix-indexer", m.book.service("prefix-indexer", prefixindexer.Run, m.scorerArgs, "grpc"))
	}
	for i := range cfg.Routers {
		listeners := []string{"http", "grpc", "admin"}
		if m.extProc(i) != "" {
			listeners = append(listeners, "extProc")
		}
		g.Add(routerName(i), inFlags(m.book.service(routerName(i), entry, func() []string { return m.routerArgs(i) }, listeners...)))
	}
	g.Add("hangup", m.hangup)
	g.Add("ready", m.waitReady)
	g.Add("decisions", m.decisions)
	return g.Run(ctx)
}

func routerName(i int) string { return "router-" + strconv.Itoa(i+1) }

// machine is all that runs.
type machine struct {
	cfg    Config
	book   *book
	log    *slog.Logger
	stdout io.Writer
}

// withScorers is a router with the scorers within.
func withScorers(ctx context.Context, args []string, stdout io.Writer) error {
	return router.RunWith(ctx, args, stdout, scorerqueue.Embeddable(), scorerkv.Embeddable(), prefixindexer.Embeddable())
}

// scorerTarget is where routers find a built-in scorer.
func (m *machine) scorerTarget(name string) string {
	if m.cfg.Embedded {
		return "embedded"
	}
	return m.book.get(name + "/grpc")
}

// builtin are the scorers that are started here.
func builtin() []string { return []string{"scorer-queue", "scorer-kv", "prefix-indexer"} }

// zone is the label of a model server: the first is in zone a, the second in b, the
// third in a again, so that scorers which go by it have something to go by.
func zone(i int) string { return string(rune('a' + i%2)) }

// nats runs the embedded server.
func (m *machine) nats(ctx context.Context, ready func()) error {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, MaxPayload: 1 << 20})
	if err != nil {
		return fmt.Errorf("embedded NATS server: %w", err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(readyPatience) {
		return fmt.Errorf("embedded NATS server did not listen within %s", readyPatience)
	}
	m.book.set("nats", s.ClientURL())
	ready()
	<-ctx.Done()
	return nil
}

// common are the settings of every service. The pool that the router's own settings name is
// everybody's: whoever is of another does not hear the router, nor is heard by it.
func (m *machine) common() []string {
	args := []string{"--set", "nats.url=" + m.book.get("nats"), "--set", "log.level=" + m.cfg.LogLevel}
	if pool := read(m.cfg.RouterConfig).Pool; pool != "" {
		args = append(args, "--set", "pool="+strconv.Quote(pool))
	}
	return args
}

func (m *machine) collectorArgs() []string {
	var list []string
	for i := range m.cfg.Servers {
		host, port, _ := strings.Cut(m.book.get(serverName(i)), ":")
		list = append(list, fmt.Sprintf("{address: %q, port: %s, labels: %s}", host, port, m.cfg.labels(i)))
	}
	return append(m.common(), "--set", "admin.address=127.0.0.1:0", "--set", "endpoints=["+strings.Join(list, ", ")+"]")
}

func (m *machine) scorerArgs() []string {
	return append(m.common(), "--set", "admin.address=127.0.0.1:0", "--set", "listen.grpc.address=127.0.0.1:0")
}

func (m *machine) routerArgs(i int) []string {
	http, grpc, admin := m.cfg.HTTP, m.cfg.GRPC, m.cfg.Admin
	if i > 0 {
		http, grpc, admin = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	}
	args := m.common()
	if m.cfg.RouterConfig != "" {
		args = append(args, "--config", m.cfg.RouterConfig)
	}
	args = append(args, "--set", "listen.http.address="+http, "--set", "listen.grpc.address="+grpc, "--set", "listen.extProc.address="+m.extProc(i), "--set", "listen.extProc.healthAddress=", "--set", "admin.address="+admin,
		"--set", "scorers="+scorers(m.cfg.RouterConfig, builtin(), m.scorerTarget))
	switch {
	case m.cfg.ConfigFile != "":
		args = append(args, "--configFile", m.cfg.ConfigFile)
	case m.cfg.ConfigText != "":
		args = append(args, "--configText", m.cfg.ConfigText)
	case m.cfg.Prefill > 0:
		args = append(args, "--configText", apart)
	}
	return args
}

// inFlags makes a router tell of an address that it cannot listen on by the flag that gave it.
func inFlags(part run.Part) run.Part {
	var pairs []string
	for _, f := range [][2]string{{"listen.http.address", "--http"}, {"listen.grpc.address", "--grpc"}, {"listen.extProc.address", "--extProc"}, {"admin.address", "--admin"}} {
		pairs = append(pairs, "--set "+f[0]+"=", f[1]+" ", f[0]+": listen on ", f[1]+": listen on ")
	}
	flags := strings.NewReplacer(pairs...)
	return func(ctx context.Context, ready func()) error {
		err := part(ctx, ready)
		if err == nil {
			return nil
		}
		if said := flags.Replace(err.Error()); said != err.Error() {
			return errors.New(said)
		}
		return err
	}
}

// extProc is where a router's ext_proc front listens; only the first one's may.
func (m *machine) extProc(i int) string {
	if i > 0 {
		return ""
	}
	return m.cfg.ExtProc
}
