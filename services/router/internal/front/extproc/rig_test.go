package extproc

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/front/edge"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reservation counts what is done with it.
type reservation struct {
	mu          sync.Mutex
	on          []roster.ID
	firstTokens int
	finished    int
	completed   bool
	usage       route.Usage
}

func (r *reservation) PickID() string { return "pick" }
func (r *reservation) FirstToken()    { r.mu.Lock(); r.firstTokens++; r.mu.Unlock() }
func (r *reservation) Move(to *roster.Endpoint) {
	r.mu.Lock()
	r.on = append(r.on, to.ID)
	r.mu.Unlock()
}

func (r *reservation) Finish(completed bool, u route.Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished++; r.finished == 1 {
		r.completed, r.usage = completed, u
	}
}

// outcome is a reservation's state, for comparison.
type outcome struct {
	Finished, FirstTokens int
	Completed             bool
	Usage                 route.Usage
}

func (r *reservation) outcome() outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return outcome{r.finished, r.firstTokens, r.completed, r.usage}
}

// rig is a front with a proxy's connection to it. It decides and hears how endpoints
// do.
type rig struct {
	t      testing.TB
	tel    *telemetry.Telemetry
	server *Server
	grpc   *grpc.Server
	conn   *grpc.ClientConn
	roster *roster.Roster

	endpoints int
	fallbacks int                                                 // of a decision
	max       int                                                 // what the picker is asked for
	err       error                                               // of a decision
	decide    func(ctx context.Context, req *route.Request) error // called in each decision
	decider   edge.Decider                                        // instead of the rig
	deps      func(d *Deps)

	mu           sync.Mutex
	seen         []*route.Request
	prompts      []string
	reservations []*reservation
	failed       []string
	succeeded    []string
}

type option func(r *rig, c *Config)

func with(f func(c *Config)) option { return func(_ *rig, c *Config) { f(c) } }

func newRig(t testing.TB, opts ...option) *rig {
	t.Helper()
	r := &rig{t: t, tel: telemetry.Discard(), endpoints: 3, fallbacks: 2, max: 1}
	cfg := DefaultConfig()
	cfg.SecureServing = false
	for _, o := range opts {
		o(r, &cfg)
	}
	if r.roster == nil {
		r.roster = roster.New(roster.Config{})
		var list []roster.Endpoint
		for i := range r.endpoints {
			list = append(list, roster.Endpoint{ID: roster.ID(fmt.Sprintf("e%d", i)), Host: fmt.Sprintf("192.168.1.%d", i+1), Port: 8000})
		}
		r.setTable(list)
	}
	deps := Deps{Decider: r, Roster: r.roster, Quarantine: r, Telemetry: r.tel}
	if r.decider != nil {
		deps.Decider = r.decider
	}
	if r.deps != nil {
		r.deps(&deps)
	}
	var err error
	if r.server, err = New(deps, cfg); err != nil {
		t.Fatal(err)
	}
	options, err := r.server.Options()
	if err != nil {
		t.Fatal(err)
	}
	r.grpc = grpc.NewServer(options...)
	r.server.Register(r.grpc)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- r.grpc.Serve(l) }()
	r.conn, err = grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30), grpc.MaxCallSendMsgSize(1<<30)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.conn.Close()
		r.grpc.Stop()
		<-served
		r.settled()
	})
	return r
}

func (r *rig) setTable(list []roster.Endpoint) {
	r.t.Helper()
	table, err := roster.NewTable(list)
	if err != nil {
		r.t.Fatal(err)
	}
	r.roster.SetTable(table)
}

// settled checks that every reservation was ended once.
func (r *rig) settled() {
	r.t.Helper()
	kittest.Eventually(r.t, "the last stream to end", func() bool {
		return r.tel.Value("pointsman_router_extproc_requests_in_flight") == 0
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, res := range r.reservations {
		if o := res.outcome(); o.Finished != 1 {
			r.t.Errorf("reservation %d was finished %d times", i, o.Finished)
		}
	}
}

// Decide picks the first endpoint.
func (r *rig) Decide(ctx context.Context, req *route.Request) *route.Decision {
	r.mu.Lock()
	r.seen = append(r.seen, req)
	text := ""
	if req.Prompt != nil {
		text = req.Prompt.Text()
	}
	r.prompts = append(r.prompts, text)
	r.mu.Unlock()
	if r.decide != nil {
		if err := r.decide(ctx, req); err != nil {
			return &route.Decision{Request: req, Err: err}
		}
	}
	return r.pick(req)
}

func (r *rig) pick(req *route.Request) *route.Decision {
	if r.err != nil {
		return &route.Decision{Request: req, Err: r.err}
	}
	table := r.roster.Snapshot().Table
	if table.Len() == 0 {
		return &route.Decision{Request: req, Err: route.ErrNoEndpoint}
	}
	res := &reservation{}
	r.mu.Lock()
	r.reservations = append(r.reservations, res)
	r.mu.Unlock()
	d := &route.Decision{Request: req, Snapshot: r.roster.Snapshot(), Endpoint: &table.Endpoints[0], Reservation: res}
	for i := 1; i <= r.fallbacks && i < table.Len(); i++ {
		d.Fallbacks = append(d.Fallbacks, &table.Endpoints[i])
	}
	d.Results = []*route.ProfileResult{{Profile: &route.Profile{Picker: picker(r.max)}, Candidates: []int32{0}, Ranked: []int32{0}, Reservation: res}}
	return d
}

type picker int

func (p picker) Name() string { return "picker" }
func (p picker) Max() int     { return int(p) }
func (p picker) Pick(*route.Cycle, []int32, []float64, []int64, int, []int32) ([]int32, string) {
	return nil, ""
}

func (r *rig) Failed(id roster.ID, reason string) {
	r.mu.Lock()
	r.failed = append(r.failed, string(id)+": "+reason)
	r.mu.Unlock()
}

func (r *rig) Succeeded(id roster.ID) {
	r.mu.Lock()
	r.succeeded = append(r.succeeded, string(id))
	r.mu.Unlock()
}

// request returns the last request that was decided on, and its prompt.
func (r *rig) request() (*route.Request, string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 {
		r.t.Fatal("nothing was decided")
	}
	return r.seen[len(r.seen)-1], r.prompts[len(r.prompts)-1]
}

func (r *rig) decided() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

// last waits for the last reservation to end and returns what became of it.
func (r *rig) last() outcome {
	r.t.Helper()
	r.mu.Lock()
	if len(r.reservations) == 0 {
		r.mu.Unlock()
		r.t.Fatal("nothing was reserved")
	}
	res := r.reservations[len(r.reservations)-1]
	r.mu.Unlock()
	kittest.Eventually(r.t, "the reservation to end", func() bool { return res.outcome().Finished > 0 })
	return res.outcome()
}

// count returns a metric of the front.
func (r *rig) count(name string, labels ...string) int {
	return int(r.tel.Value("pointsman_router_extproc_"+name, labels...))
}

// ended waits until so many streams have ended for the reason.
func (r *rig) ended(reason string, n int) {
	r.t.Helper()
	kittest.Eventually(r.t, "a stream to end: "+reason, func() bool { return r.count("requests_total", "reason", reason) == n })
}
