package modelserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/page"
)

// stopGrace is how long Run lets answers come to their end after it was told to stop.
const stopGrace = 5 * time.Second

// reopenInterval is how often a shut address is tried again when another process took it meanwhile.
const reopenInterval = 100 * time.Millisecond

// ownTier is how many blocks fit into the tier of a server's OffloadingConnector.
const ownTier = 1 << 16

// Server is a simulated model server. It serves from Start to Stop or Kill, once; a restarted server is a new one with
// the same address, and begins with an empty cache, as a real one.
type Server struct {
	cfg    Config
	log    *slog.Logger
	page   *page.Page
	driver *driver
	faults *faultBox
	counts *routeCounts // nil unless the page shows them
	pages  sync.Pool    // of *[]byte
	born   time.Time

	engineID string        // as kv_transfer_params names it; a restarted server has another
	keeps    atomic.Uint32 // prompts kept so far
	inFlight atomic.Int32
	rooms    *rooms

	encodings *Store       // parts of chats that were encoded here for others
	client    *http.Client // for prompts from other servers

	adaptersMu sync.Mutex
	adapters   []string

	http   *http.Server
	gate   *gate
	cancel context.CancelFunc // ends the contexts of all requests
	served chan error         // the result of http.Serve

	bootstrap       net.Listener // nil if there is none
	bootstrapServed chan error

	reopenMu sync.Mutex
	reopen   *time.Timer // opens the gate again; nil before the start and after the end
	shutTill time.Time   // not before this
}

// New returns a server that does not serve yet.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Transfer.Connector == Offloading {
		cfg.Transfer.Store = NewStore(ownTier)
	}
	p, err := page.New(cfg.page())
	if err != nil {
		return nil, fmt.Errorf("model server: %w", err)
	}
	d, err := newDriver(cfg, p)
	if err != nil {
		return nil, fmt.Errorf("model server: %w", err)
	}
	s := &Server{
		cfg: cfg, log: cfg.Log, page: p, driver: d, faults: newFaultBox(cfg.Faults, cfg.Seed), adapters: slices.Clone(cfg.Adapters),
		pages: sync.Pool{New: func() any { return new([]byte) }}, rooms: newRooms(), encodings: NewStore(mediaKept),
		engineID: fmt.Sprintf("%016x-%016x", rand.Uint64(), rand.Uint64()),
		client:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if cfg.LargePage {
		s.counts = newRouteCounts()
	}
	return s, nil
}

// Start takes the address and serves in the background. It must be called once.
func (s *Server) Start() error {
	g, err := newGate(s.cfg.Address, s.cfg.StartDelay > 0)
	if err != nil {
		return fmt.Errorf("model server: %w", err)
	}
	if a := s.cfg.Transfer.BootstrapAddress; a != "" {
		if s.bootstrap, err = listen(a); err != nil {
			return errors.Join(fmt.Errorf("model server: listen on %s for bootstrap rooms: %w", a, err), g.Close())
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.gate, s.cancel, s.born = g, cancel, time.Now()
	s.http = &http.Server{
		Handler:           s.routes(),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.reopenMu.Lock()
	s.shutTill = s.born.Add(s.cfg.StartDelay)
	s.reopen = time.AfterFunc(s.cfg.StartDelay, s.openGate)
	s.reopenMu.Unlock()
	s.driver.start(s.Faults())
	s.served = make(chan error, 1)
	go func() { s.served <- s.http.Serve(g) }()
	if s.bootstrap != nil {
		s.bootstrapServed = make(chan error, 1)
		go func() { s.bootstrapServed <- s.http.Serve(s.bootstrap) }()
	}
	return nil
}

// openGate lets connections in, now or as soon as the address is free.
func (s *Server) openGate() {
	s.reopenMu.Lock()
	defer s.reopenMu.Unlock()
	if s.reopen == nil || time.Now().Before(s.shutTill) {
		return // it has ended, or was shut anew while this call was on its way
	}
	if err := s.gate.open(); err != nil {
		s.log.Warn("address is taken, trying again", "address", s.Address(), "error", err)
		s.reopen.Reset(reopenInterval)
	}
}

// Stop lets answers come to their end, until ctx ends, and then closes what is left. The error is ctx's in that case.
// After the first call of Stop or Kill, others do nothing.
func (s *Server) Stop(ctx context.Context) error {
	if !s.stopReopening() {
		return nil
	}
	err := s.http.Shutdown(ctx)
	return errors.Join(err, s.end())
}

// Kill closes all connections at once, as the death of the process would.
func (s *Server) Kill() error {
	if !s.stopReopening() {
		return nil
	}
	return s.end()
}

// stopReopening says whether it is the first call.
func (s *Server) stopReopening() bool {
	s.reopenMu.Lock()
	defer s.reopenMu.Unlock()
	if s.reopen == nil {
		return false
	}
	s.reopen.Stop()
	s.reopen = nil
	return true
}

// end stops all that Start started.
func (s *Server) end() error {
	// Connections first: a handler whose context has ended returns, and its answer must not look complete.
	err := errors.Join(s.http.Close(), s.gate.Close())
	s.cancel()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if s.bootstrap != nil {
		if served := <-s.bootstrapServed; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
	}
	s.driver.stop()
	s.client.CloseIdleConnections()
	if err != nil {
		return fmt.Errorf("model server: stop: %w", err)
	}
	return nil
}

// Run serves until ctx ends. It calls ready once it has the address, and gives answers five seconds to come to their
// end. It can be a part of a run.Group.
func (s *Server) Run(ctx context.Context, ready func()) error {
	if err := s.Start(); err != nil {
		return err
	}
	ready()
	select {
	case <-ctx.Done():
	case err := <-s.served:
		s.served <- err // for end
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	err := s.Stop(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // what was cut off by then is no fault
	}
	return err
}

// Address is the "host:port" that it serves on; before Start, that of the configuration.
func (s *Server) Address() string {
	if s.gate == nil {
		return s.cfg.Address
	}
	return s.gate.address
}

// URL is the same as a URL, without a slash at its end.
func (s *Server) URL() string { return "http://" + s.Address() }

// BootstrapAddress is the "host:port" at which decode servers find bootstrap rooms.
func (s *Server) BootstrapAddress() string {
	if s.bootstrap != nil {
		return s.bootstrap.Addr().String()
	}
	return s.Address()
}

// InFlight is the number of requests to /v1 whose handlers have not returned, those included that hang.
func (s *Server) InFlight() int { return int(s.inFlight.Load()) }

// Transfers tells what was handed over and fetched.
func (s *Server) Transfers() Transfers {
	t := s.driver.transfers()
	t.Rooms = s.rooms.len()
	return t
}

// Stats are the engine's figures as of now.
func (s *Server) Stats() engine.Stats { return s.driver.stats() }

// Faults returns the faults in force.
func (s *Server) Faults() Faults {
	return s.faults.get()
}

// SetFaults replaces the faults in force. Requests that hang go on.
func (s *Server) SetFaults(f Faults) error {
	if err := f.Validate(); err != nil {
		return err
	}
	s.driver.setFaults(f)
	s.faults.set(f)
	return nil
}

// RefuseFor refuses new connections for d from now on, whatever was set before; 0 lets them in again. Those that are open
// stay.
func (s *Server) RefuseFor(d time.Duration) {
	s.reopenMu.Lock()
	defer s.reopenMu.Unlock()
	if s.reopen != nil {
		s.gate.shut()
		s.shutTill = time.Now().Add(d)
		s.reopen.Reset(d)
	}
}

// ResetPrefixCache empties the prefix cache.
func (s *Server) ResetPrefixCache() { s.driver.resetPrefixCache() }

func (s *Server) name() string {
	if s.cfg.Name != "" {
		return s.cfg.Name
	}
	return s.Address()
}
