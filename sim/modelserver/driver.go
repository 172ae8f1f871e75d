package modelserver

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/page"
)

// leastWait bounds how often the driver wakes, whatever the time scale. What happens in between is told late, with its
// exact time.
const leastWait = 500 * time.Microsecond

// driver runs an engine in real time.
type driver struct {
	mu            sync.Mutex
	engine        *engine.Engine
	clock         clock
	scale         float64
	calls         map[engine.ID]*call
	distributions *page.Distributions
	adapters      page.AdapterLog

	transfer Transfer
	held     map[string]*heldPrompt     // by the name that kv_transfer_params gives them
	awaited  map[string][]chan struct{} // those who wait for one, by the same
	tally    Transfers
	ctx      context.Context // of fetches
	cancel   context.CancelFunc
	fetches  sync.WaitGroup

	timer *time.Timer
	quit  chan struct{}
	done  chan struct{}
}

// call is one request at the engine.
type call struct {
	id        engine.ID
	maxTokens int                                         // as the client named it, 0 for not
	streamed  bool                                        // wake also for tokens
	wake      chan<- struct{}                             // gets a signal, never blocks
	seed      uint64                                      // of the prompt, which tells prompts apart
	keepAs    string                                      // the name of the computed prompt for others; empty if it is not kept
	transfer  string                                      // the id that links its leg to another
	fetch     func(ctx context.Context, tokens int) error // brings a part of the prompt from elsewhere
	stored    []uint64                                    // blocks to be put into the shared storage
	stopFetch context.CancelFunc                          // nil while nothing is fetched

	produced atomic.Int64 // tokens so far
	over     atomic.Bool  // and then the rest may be read
	reason   engine.Reason
	rejected bool
	cached   int     // prompt tokens that were not computed
	kept     []int32 // blocks that are kept for others
}

func newDriver(cfg Config, p *page.Page) (*driver, error) {
	e, err := engine.New(cfg.Engine)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	return &driver{engine: e, scale: cfg.TimeScale, calls: make(map[engine.ID]*call), distributions: p.NewDistributions(), timer: timer,
		transfer: cfg.Transfer, held: make(map[string]*heldPrompt), ctx: ctx, cancel: cancel}, nil
}

// start begins the engine's time.
func (d *driver) start(f Faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clock = clock{mark: time.Now(), speed: d.speed(f)}
	d.adapters.Record(nil, nil, unixSeconds(d.clock.mark))
	d.quit, d.done = make(chan struct{}), make(chan struct{})
	go d.loop()
}

// stop ends it. Requests that are under way never end.
func (d *driver) stop() {
	close(d.quit)
	<-d.done
	d.cancel()
	d.fetches.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer.Stop()
	for _, h := range d.held {
		h.expires.Stop()
	}
}

func (d *driver) loop() {
	defer close(d.done)
	for {
		select {
		case <-d.timer.C:
			d.mu.Lock()
			d.advance(time.Now())
			d.mu.Unlock()
		case <-d.quit:
			return
		}
	}
}

func (d *driver) speed(f Faults) float64 {
	if by := f.slowdown(); by > 0 {
		return d.scale / by
	}
	return 0
}

// setFaults heeds what concerns the engine's time.
func (d *driver) setFaults(f Faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.advance(now)
	d.clock.setSpeed(now, d.speed(f))
	d.arm(now)
}

// submit hands requests to the engine, all at one time. calls[i] is told what becomes of queries[i]; a rejection is known
// on return.
func (d *driver) submit(queries []engine.Request, calls []*call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	at := d.clock.at(now)
	for i, q := range queries {
		calls[i].id = d.engine.Submit(at, q)
		d.calls[calls[i].id] = calls[i]
	}
	d.advance(now)
}

// abort ends what of calls has not ended.
func (d *driver) abort(calls []*call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	at := d.clock.at(now)
	for _, c := range calls {
		d.engine.Abort(at, c.id)
	}
	d.advance(now)
}

func (d *driver) resetPrefixCache() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine.ResetPrefixCache()
}

func (d *driver) stats() engine.Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.advance(time.Now())
	return d.engine.Stats()
}

// appendPage writes the metrics page. f holds what the driver does not know.
func (d *driver) appendPage(dst []byte, p *page.Page, f page.Figures) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.advance(now)
	f.Stats, f.Distributions, f.Adapters = d.engine.Stats(), d.distributions, &d.adapters
	if f.Stats.MaxAdapters > 0 && f.Stats.Running+f.Stats.Waiting > 0 {
		d.noteAdapters(f.Stats, now)
	}
	return p.Append(dst, &f)
}

// advance brings the engine to the present, tells those who wait, and sets the timer. d.mu is held.
func (d *driver) advance(now time.Time) {
	events := d.engine.Advance
	if d.clock.speed == 0 {
		// Frozen: nothing is admitted any more, but what was rejected or aborted is told.
		events = func(time.Duration) []engine.Event { return d.engine.Events() }
	}
	moved := false
	for _, ev := range events(d.clock.at(now)) {
		c := d.calls[ev.ID]
		d.distributions.Record(ev, c.maxTokens)
		switch ev.Kind {
		case engine.Fetching:
			d.fetch(c, ev.Tokens, now)
		case engine.FirstToken, engine.NextToken:
			if ev.Kind == engine.FirstToken {
				d.transfer.Store.put(c.stored)
			}
			c.produced.Store(int64(ev.Tokens))
			if c.streamed {
				c.signal()
			}
		case engine.Admitted:
			moved = true
			c.cached = ev.Tokens
		case engine.Finished, engine.Rejected:
			moved = true
			c.reason, c.rejected = ev.Reason, ev.Kind == engine.Rejected
			if c.stopFetch != nil {
				c.stopFetch()
			}
			if c.keepAs != "" && ev.Kind == engine.Finished {
				d.keep(c, ev)
			}
			if ev.Reason == engine.CacheThreshold {
				c.cached = ev.Timing.Cached
			}
			c.over.Store(true)
			delete(d.calls, ev.ID)
			c.signal()
		}
	}
	if moved && d.engine.Config().MaxAdapters > 0 {
		d.noteAdapters(d.engine.Stats(), now)
	}
	d.arm(now)
}

func (d *driver) noteAdapters(s engine.Stats, now time.Time) {
	d.adapters.Record(s.RunningAdapters, s.WaitingAdapters, unixSeconds(now))
}

// arm sets the timer to when the engine has something to do. d.mu is held.
func (d *driver) arm(now time.Time) {
	at, busy := d.engine.Next()
	if busy {
		if wait, ok := d.clock.until(now, at); ok {
			d.timer.Reset(max(wait, leastWait))
			return
		}
	}
	d.timer.Stop()
}

func (c *call) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
