package mesh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
)

// Placement says where scorers are and how they are called.
type Placement string

// Placements.
const (
	TCP      Placement = "tcp"      // processes, streams over TCP
	Unix     Placement = "unix"     // processes, streams over Unix sockets
	Unary    Placement = "unary"    // processes, one RPC per call over TCP
	Embedded Placement = "embedded" // in the router's process
)

// Placements are all of them.
func Placements() []Placement { return []Placement{TCP, Unix, Unary, Embedded} }

// readyPatience is how long a router may take to know all endpoints and scorers.
const readyPatience = 60 * time.Second

// Config is what a mesh is made of.
type Config struct {
	// Binaries is the directory of the services' binaries. Self is this program.
	Binaries, Self string
	// Endpoints are the model servers.
	Endpoints []string
	// Placement of the scorers. Default TCP.
	Placement Placement
	// Routers is how many there are. Default 1.
	Routers int
	// Replicas are the processes of each scorer, by the names of Scorers. Default 1 each.
	Replicas map[string]int
	// ScrapeInterval of the collector.
	ScrapeInterval time.Duration
	// Env is added to the environment of what is counted: GOGC=400, for example.
	Env []string
	// ScorerEnv is added to that of scorers and NATS, after Env.
	ScorerEnv []string
	// RouterSets are further --set arguments of the router, and ConfigText its
	// EndpointPickerConfig; empty: its default.
	RouterSets []string
	ConfigText string
}

// Mesh is a running Pointsman.
type Mesh struct {
	// Router is its router, the first of Routers.
	Router  *Process
	Routers []*Process

	cfg       Config
	dir       string // of sockets
	processes []*Process
	nats      *Process
	targets   []string // of the scorers, as routers take them
}

// Scorers are the services that routers ask, by name.
func Scorers() []string { return []string{"scorer-queue", "scorer-kv", "prefix-indexer"} }

// New starts a mesh and waits until its routers know the load of every endpoint and
// reach every replica of every scorer.
func New(ctx context.Context, cfg Config) (_ *Mesh, err error) {
	if cfg.Placement == "" {
		cfg.Placement = TCP
	}
	cfg.Routers = max(1, cfg.Routers)
	m := &Mesh{cfg: cfg}
	if m.dir, err = os.MkdirTemp("", "pointsman-bench-"); err != nil {
		return nil, fmt.Errorf("make a directory for sockets: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	m.nats, err = m.start(Command{Name: "nats", Counted: true, Path: cfg.Self, Args: []string{"nats"}, Env: slices.Concat(cfg.Env, cfg.ScorerEnv), Listeners: []string{"client", monitor}})
	if err != nil {
		return nil, err
	}
	if _, err = m.start(m.collector()); err != nil {
		return nil, err
	}
	if err = m.startScorers(); err != nil {
		return nil, err
	}
	for range cfg.Routers {
		p, err := m.startRouter()
		if err != nil {
			return nil, err
		}
		m.Routers = append(m.Routers, p)
	}
	m.Router = m.Routers[0]
	for _, r := range m.Routers {
		if err = m.await(ctx, r); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// monitor is the listener of a NATS server's monitoring pages.
const monitor = "monitor"

// NATS is "host:port" at which clients reach the NATS server.
func (m *Mesh) NATS() string { return m.nats.Address("client") }

// replicas is how many processes a scorer has.
func (m *Mesh) replicas(scorer string) int {
	if m.cfg.Placement == Embedded {
		return 1
	}
	return max(1, m.cfg.Replicas[scorer])
}

func (m *Mesh) start(c Command) (*Process, error) {
	p, err := Start(c)
	if err != nil {
		return nil, err
	}
	m.processes = append(m.processes, p)
	return p, nil
}

// common are the settings of every service.
func (m *Mesh) common() []string {
	return []string{"--set", "nats.url=nats://" + m.NATS(), "--set", "admin.address=127.0.0.1:0", "--set", "log.level=warn"}
}

func (m *Mesh) collector() Command {
	list := make([]string, len(m.cfg.Endpoints))
	for i, e := range m.cfg.Endpoints {
		host, port, _ := strings.Cut(e, ":")
		list[i] = fmt.Sprintf("{address: %q, port: %s}", host, port)
	}
	return Command{
		Name: "metrics-collector", Path: filepath.Join(m.cfg.Binaries, "metrics-collector"), Listeners: []string{"admin"},
		Args: append(m.common(), "--set", "endpoints=["+strings.Join(list, ", ")+"]", "--set", "scrape.interval="+m.cfg.ScrapeInterval.String()),
	}
}

// startScorers starts the scorers, unless they are to be within the routers.
func (m *Mesh) startScorers() error {
	transport := "stream"
	if m.cfg.Placement == Unary {
		transport = "unary"
	}
	for _, name := range Scorers() {
		if m.cfg.Placement == Embedded {
			m.targets = append(m.targets, fmt.Sprintf("{name: %s, target: embedded}", name))
			continue
		}
		address := "127.0.0.1:0"
		if m.cfg.Placement == Unix { // a socket is one replica
			address = "unix://" + filepath.Join(m.dir, name+".sock")
		}
		var where []string
		for range m.replicas(name) {
			p, err := m.start(Command{
				Name: name, Counted: true, Path: filepath.Join(m.cfg.Binaries, name), Env: slices.Concat(m.cfg.Env, m.cfg.ScorerEnv), Listeners: []string{"admin", "grpc"},
				Args: append(m.common(), "--set", "listen.grpc.address="+address),
			})
			if err != nil {
				return err
			}
			where = append(where, p.Address("grpc"))
		}
		target := strings.Join(where, ",")
		if m.cfg.Placement == Unix {
			target = address
		}
		m.targets = append(m.targets, fmt.Sprintf("{name: %s, target: %q, transport: %s}", name, target, transport))
	}
	return nil
}

// startRouter starts a router that asks the scorers.
func (m *Mesh) startRouter() (*Process, error) {
	router := filepath.Join(m.cfg.Binaries, "router")
	var args []string
	if m.cfg.Placement == Embedded {
		router, args = filepath.Join(m.cfg.Binaries, "pointsman"), []string{"serve"}
	}
	args = append(args, m.common()...)
	args = append(args, "--set", "listen.http.address=127.0.0.1:0", "--set", "listen.grpc.address=127.0.0.1:0",
		"--set", "listen.extProc.address=127.0.0.1:0", "--set", "listen.extProc.healthAddress=", "--set", "listen.extProc.secureServing=false",
		"--set", "scorers=["+strings.Join(m.targets, ", ")+"]")
	for _, s := range m.cfg.RouterSets {
		args = append(args, "--set", s)
	}
	if m.cfg.ConfigText != "" {
		args = append(args, "--configText", m.cfg.ConfigText)
	}
	return m.start(Command{Name: "router", Counted: true, Path: router, Args: args, Env: m.cfg.Env, Listeners: []string{"admin", "grpc", "http", "extProc"}})
}

// await waits until a router knows the load of every endpoint and reaches every replica
// of every scorer.
func (m *Mesh) await(ctx context.Context, router *Process) error {
	conn, err := grpc.NewClient(router.Address("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return fmt.Errorf("dial the router: %w", err)
	}
	defer conn.Close()
	client := routerv1.NewRouterServiceClient(conn)
	missing := ""
	for end := time.Now().Add(readyPatience); time.Now().Before(end); {
		if missing = m.missing(ctx, client); missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("the mesh is not ready after %v: %s; the router wrote: %s", readyPatience, missing, router.stderr.String())
}

// missing says what the router still lacks; empty if nothing.
func (m *Mesh) missing(ctx context.Context, c routerv1.RouterServiceClient) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	e, err := c.ListEndpoints(ctx, &routerv1.ListEndpointsRequest{})
	if err != nil {
		return err.Error()
	}
	known := 0
	for _, s := range e.GetEndpoints() {
		if s.GetLoadAge() != nil && len(s.GetModels()) > 0 {
			known++
		}
	}
	if known != len(m.cfg.Endpoints) {
		return fmt.Sprintf("it knows load and models of %d of %d endpoints", known, len(m.cfg.Endpoints))
	}
	s, err := c.ListScorers(ctx, &routerv1.ListScorersRequest{})
	if err != nil {
		return err.Error()
	}
	for _, sc := range s.GetScorers() {
		ready := 0
		for _, r := range sc.GetReplicas() {
			if r.GetReady() {
				ready++
			}
		}
		if want := m.replicas(sc.GetName()); ready < want {
			return fmt.Sprintf("of scorer %s %d of %d replicas are reached: %s", sc.GetName(), ready, want, sc.GetLastError())
		}
	}
	return ""
}

// Subject is the mesh as it is measured. Replicas are parts of one name.
func (m *Mesh) Subject(name string) Subject {
	s := Subject{Name: name, Address: m.Router.Address("extProc"), Endpoints: m.cfg.Endpoints}
	for _, p := range m.processes {
		s.Parts = append(s.Parts, Part{Name: p.Name, Counted: p.Counted, PID: p.PID(), Admin: p.Address("admin"), Monitor: p.Address(monitor)})
	}
	return s
}

// ExtProc is where each router is asked.
func (m *Mesh) ExtProc() []string {
	all := make([]string, len(m.Routers))
	for i, r := range m.Routers {
		all[i] = r.Address("extProc")
	}
	return all
}

// Close ends all processes, the router first.
func (m *Mesh) Close() error {
	var errs []error
	for i := len(m.processes) - 1; i >= 0; i-- {
		errs = append(errs, m.processes[i].Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(m.dir))...)
}
