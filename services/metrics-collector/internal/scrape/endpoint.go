package scrape

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pointsman/pointsman/services/metrics-collector/internal/engine"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

// pageAccept is what we ask for. Without it a server chooses, and some choose formats
// or compression that cost them and us more.
const pageAccept = "text/plain;version=0.0.4"

// endpoint is one endpoint that is being scraped.
type endpoint struct {
	id     fleet.ID
	target *fleet.Target
	cfg    *Config
	sink   Sink
	log    *slog.Logger
	meters *meters
	page   *fetcher
	list   *fetcher // nil if the models are given
	reader *engine.Reader
	cancel context.CancelFunc

	attempted atomic.Bool
	unknown   atomic.Uint32 // figures that the last good page lacked, by bit

	mu     sync.Mutex
	read   fleet.Details // from the page
	listed []string      // from the list of models
	told   fleet.Details
}

// scrapeLoop scrapes until ctx ends.
func (e *endpoint) scrapeLoop(ctx context.Context) {
	defer e.page.close()
	interval := e.cfg.Interval.D()
	if e.target.Interval > 0 {
		interval = e.target.Interval
	}
	p := pace{interval: interval, maxBackoff: e.cfg.MaxBackoff.D(), maxInterval: e.cfg.MaxInterval.D(), maxShare: e.cfg.MaxShare, jitter: e.cfg.Jitter}
	var n notice
	wait := time.Duration(rand.Int64N(int64(interval)))
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		took, err := e.scrape(ctx)
		if ctx.Err() != nil {
			return
		}
		e.attempted.Store(true)
		e.tell(&n, err)
		timer.Reset(p.next(took, err == nil, rand.Float64()))
	}
}

// scrape fetches and reads the page once. took is how long the endpoint was busy with
// it.
func (e *endpoint) scrape(ctx context.Context) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout.D())
	defer cancel()
	buf := e.meters.buffers.get()
	defer e.meters.buffers.put(buf)
	start := time.Now()
	body, reached, err := e.page.get(ctx, (*buf)[:0])
	*buf = body
	elapsed := time.Since(start)
	if reached {
		took = elapsed
	}
	if err == nil {
		e.meters.page(ctx, elapsed, len(body))
		err = e.take(start, e.reader.Read(body))
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		e.meters.result(err)
	}
	return took, err
}

// take hands the figures on, if there are any.
func (e *endpoint) take(start time.Time, f engine.Figures) error {
	if !f.Known() {
		return &failure{noFigures, errNoFigures}
	}
	e.unknown.Store(unknownBits(&f))
	e.sink.Observed(e.id, fleet.Reading{At: start, Figures: f})
	e.learn(func() {
		e.read = fleet.Details{Engine: string(f.Engine), BlockSize: f.BlockSize, BlockCount: f.BlockCount, Models: f.Models}
	})
	return nil
}

// learn changes what is known of the endpoint and tells it if that is new.
func (e *endpoint) learn(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
	d := e.read
	d.Models = union(e.read.Models, e.listed)
	if e.told.Equal(d) {
		return
	}
	e.told = d
	e.sink.Learned(e.id, d)
}

func (e *endpoint) tell(n *notice, err error) {
	switch {
	case err == nil:
		if n.well() {
			e.log.Info("endpoint is scraped again", "endpoint", string(e.id))
		}
	case n.failed(time.Now()):
		e.log.Warn("endpoint cannot be scraped; its figures grow old until it can",
			"endpoint", string(e.id), "url", e.target.URL(&e.target.Metrics), "reason", reasonOf(err).String(), "error", err)
	}
}

// listLoop asks for the list of models until ctx ends.
func (e *endpoint) listLoop(ctx context.Context) {
	defer e.list.close()
	timer := time.NewTimer(time.Duration(rand.Int64N(int64(e.cfg.Interval.D()))))
	defer timer.Stop()
	var p listPace
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := e.askModels(ctx)
		if ctx.Err() != nil {
			return
		}
		e.meters.list(err)
		if err != nil {
			e.log.Debug("endpoint does not list its models", "endpoint", string(e.id), "error", err)
		}
		wait := p.next(&e.cfg.ModelList, err)
		wait += time.Duration(float64(wait) * e.cfg.Jitter * (2*rand.Float64() - 1))
		timer.Reset(wait)
	}
}

func (e *endpoint) askModels(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout.D())
	defer cancel()
	body, _, err := e.list.get(ctx, nil)
	if err != nil {
		return err
	}
	models, err := parseModels(body)
	if err != nil {
		return err
	}
	e.learn(func() { e.listed = models })
	return nil
}
