package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/sim/modelserver"
)

// Options is what a cluster is made of.
type Options struct {
	// NATS is a bus that runs already; nil: one is started.
	NATS *kittest.NATSHandle
	// Servers is the number of simulated model servers. Default 8.
	Servers int
	// Server changes a server's configuration; may be nil.
	Server func(i int, cfg *modelserver.Config)
	// Address returns where the rest of the cluster finds a server, if not at its own
	// address: a test may stand before it. May be nil.
	Address func(s *modelserver.Server) string
	// Routers and Collectors are how many of each. Default 1.
	Routers, Collectors int
	// ConfigText is the EndpointPickerConfig. Empty: the router's default.
	ConfigText string
	// ConfigFile is the same as a file, which the routers follow.
	ConfigFile string
	// Plain runs binaries without the race detector, even if the test is under it.
	Plain bool
	// RouterSets are further --set arguments of the routers.
	RouterSets []string
	// ScorerSets are further --set arguments of scorers that come with Pointsman, by name.
	ScorerSets map[string][]string
	// Labels are those of server i, as YAML such as "{zone: a}"; may be nil.
	Labels func(i int) string
	// Scorers are further scorers, as the routers' settings have them, such as
	// "{name: zone, target: HOST:PORT}". They are not waited for.
	Scorers []string
	// Policy is YAML that says something of requests: objectives, rewrites, models,
	// criticalModels. If it is not empty, collectors find it and the endpoints in a file;
	// see Cluster.Announce.
	Policy string
}

// Cluster is a running Pointsman.
type Cluster struct {
	// NATS is the bus.
	NATS *kittest.NATSHandle
	// Servers are the simulated model servers.
	Servers []*modelserver.Server
	// Collectors, Scorers and Routers are processes.
	Collectors []*Process
	Scorers    map[string]*Process // by service name
	Routers    []*Process

	file    string // of the endpoints; empty: there is none
	address func(*modelserver.Server) string
	labels  func(i int) string // nil: none
}

// Start runs a cluster and waits until every router knows all endpoints' loads and
// reaches all scorers that come with Pointsman. All of it ends with the test.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	o.Servers, o.Routers, o.Collectors = max(o.Servers, 1), max(o.Routers, 1), max(o.Collectors, 1)
	binary := func(name string) string {
		if o.Plain {
			return PlainBinary(t, name)
		}
		return Binary(t, name)
	}
	if o.NATS == nil {
		o.NATS = kittest.StartNATS(t, 0)
	}
	c := &Cluster{NATS: o.NATS, Scorers: make(map[string]*Process), address: o.Address, labels: o.Labels}
	if c.address == nil {
		c.address = (*modelserver.Server).Address
	}
	c.startServers(t, o)
	nats := "nats.url=" + c.NATS.URL
	endpoints := c.endpoints()
	if o.Policy != "" {
		c.file = filepath.Join(t.TempDir(), "endpoints.yaml")
		c.Announce(t, o.Policy, c.Servers...)
		endpoints = "endpointsFile=" + c.file
	}
	for i := range o.Collectors {
		p := NewProcess(t, fmt.Sprintf("metrics-collector-%d", i+1), binary("metrics-collector"), 1,
			"--set", nats, "--set", "admin.address="+free(t), "--set", endpoints)
		p.Start(t)
		c.Collectors = append(c.Collectors, p)
	}
	var targets []string
	for _, name := range []string{"scorer-queue", "scorer-kv", "prefix-indexer"} {
		address := free(t)
		args := []string{"--set", nats, "--set", "admin.address=" + free(t), "--set", "listen.grpc.address=" + address}
		for _, s := range o.ScorerSets[name] {
			args = append(args, "--set", s)
		}
		p := NewProcess(t, name, binary(name), 2, args...)
		p.Start(t)
		c.Scorers[name] = p
		targets = append(targets, fmt.Sprintf("{name: %s, target: %q}", name, address))
	}
	targets = append(targets, o.Scorers...)
	for i := range o.Routers {
		args := []string{"--set", nats, "--set", "admin.address=" + free(t), "--set", "listen.http.address=" + free(t), "--set", "listen.grpc.address=" + free(t), "--set", "listen.extProc.address=" + free(t), "--set", "listen.extProc.healthAddress=",
			"--set", "scorers=[" + strings.Join(targets, ", ") + "]"}
		for _, s := range o.RouterSets {
			args = append(args, "--set", s)
		}
		if o.ConfigText != "" {
			args = append(args, "--configText", o.ConfigText)
		}
		if o.ConfigFile != "" {
			args = append(args, "--configFile", o.ConfigFile)
		}
		p := NewProcess(t, fmt.Sprintf("router-%d", i+1), binary("router"), 4, args...)
		p.Start(t)
		c.Routers = append(c.Routers, p)
	}
	for i := range c.Routers {
		c.AwaitReady(t, i)
	}
	return c
}

func free(t testing.TB) string { return fmt.Sprintf("127.0.0.1:%d", kittest.FreePort(t)) }

func (c *Cluster) startServers(t testing.TB, o Options) {
	t.Helper()
	for i := range o.Servers {
		cfg := modelserver.DefaultConfig()
		if o.Server != nil {
			o.Server(i, &cfg)
		}
		s, err := modelserver.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Kill() })
		c.Servers = append(c.Servers, s)
	}
}

func (c *Cluster) endpoints() string { return "endpoints=" + c.listed(c.Servers) }

// listed is the servers as the collector's configuration has them.
func (c *Cluster) listed(servers []*modelserver.Server) string {
	var list []string
	for i, s := range servers {
		host, port, _ := strings.Cut(c.address(s), ":")
		labels := "{}"
		if c.labels != nil {
			labels = c.labels(i)
		}
		list = append(list, fmt.Sprintf("{address: %q, port: %s, labels: %s}", host, port, labels))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// URL returns the address of a router's OpenAI API, without /v1.
func (c *Cluster) URL(router int) string { return "http://" + c.Routers[router].Addr("http") }

// Router returns a client of a router's gRPC front.
func (c *Cluster) Router(t testing.TB, router int) routerv1.RouterServiceClient {
	t.Helper()
	conn := dial(t, c.Routers[router].Addr("grpc"))
	return routerv1.NewRouterServiceClient(conn)
}

func dial(t testing.TB, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := rpc.Dial(address, rpc.DefaultClientConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// AwaitReady waits until a router knows the load of every endpoint and reaches
// every scorer.
func (c *Cluster) AwaitReady(t testing.TB, router int) {
	t.Helper()
	client := c.Router(t, router)
	kittest.Eventually(t, fmt.Sprintf("router %d to know all endpoints and reach all scorers", router+1), func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		e, err := client.ListEndpoints(ctx, &routerv1.ListEndpointsRequest{})
		if err != nil || len(e.GetEndpoints()) != len(c.Servers) {
			return false
		}
		for _, s := range e.GetEndpoints() {
			if s.GetLoadAge() == nil || len(s.GetModels()) == 0 {
				return false
			}
		}
		return c.scorersReady(ctx, client)
	})
}

func (c *Cluster) scorersReady(ctx context.Context, client routerv1.RouterServiceClient) bool {
	s, err := client.ListScorers(ctx, &routerv1.ListScorersRequest{})
	if err != nil {
		return false
	}
	ready := 0
	for _, sc := range s.GetScorers() {
		if c.Scorers[sc.GetName()] == nil {
			continue
		}
		for _, r := range sc.GetReplicas() {
			if r.GetReady() {
				ready++
				break
			}
		}
	}
	return ready == len(c.Scorers)
}

// Answer is what came of one request.
type Answer struct {
	// Status is the HTTP status, Endpoint the header x-pointsman-endpoint.
	Status   int
	Endpoint string
	// Body is the answer.
	Body []byte
}

// Post sends a body to a router.
func Post(ctx context.Context, client *http.Client, url string, body []byte) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(string(body)))
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return Answer{Status: resp.StatusCode, Endpoint: resp.Header.Get("x-pointsman-endpoint"), Body: raw}, err
}

// Text returns the text of a chat completion's first choice.
func (a Answer) Text() (string, error) {
	var m struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(a.Body, &m); err != nil || len(m.Choices) == 0 {
		return "", fmt.Errorf("no chat completion in %.200q: %w", a.Body, err)
	}
	return m.Choices[0].Message.Content, nil
}

// HitRatio returns the share of prompt tokens that all servers together found in
// their prefix caches.
func (c *Cluster) HitRatio() float64 {
	var queries, hits float64
	for _, s := range c.Servers {
		st := s.Stats()
		queries += float64(st.PrefixQueries)
		hits += float64(st.PrefixHits)
	}
	if queries == 0 {
		return 0
	}
	return hits / queries
}

// AwaitIdle waits until no router knows of a request in flight.
func (c *Cluster) AwaitIdle(t testing.TB) {
	t.Helper()
	for i := range c.Routers {
		client := c.Router(t, i)
		kittest.Eventually(t, fmt.Sprintf("router %d to see no request in flight", i+1), func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			e, err := client.ListEndpoints(ctx, &routerv1.ListEndpointsRequest{})
			if err != nil {
				return false
			}
			for _, s := range e.GetEndpoints() {
				if s.GetInFlightRequestCount() > 0 {
					return false
				}
			}
			return true
		})
	}
}

// AwaitMetric waits until a router's metric, in any series whose labels contain the
// text, is above zero.
func (c *Cluster) AwaitMetric(t testing.TB, router int, name, labels string) {
	t.Helper()
	kittest.Eventually(t, name+" to be above zero", func() bool { return c.Metric(t, router, name, labels) > 0 })
}

// Metric sums a router's metric over the series whose labels contain the text.
func (c *Cluster) Metric(t testing.TB, router int, name, labels string) float64 {
	t.Helper()
	return c.Routers[router].Metric(t, name, labels)
}

// Metric sums a metric of the process over the series whose labels contain the text.
func (p *Process) Metric(t testing.TB, name, labels string) float64 {
	t.Helper()
	resp, err := http.Get("http://" + p.Addr("admin") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for line := range strings.Lines(string(page)) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		base, set, _ := strings.Cut(series, "{")
		if !ok || base != name || !strings.Contains(set, labels) {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			sum += v
		}
	}
	return sum
}
