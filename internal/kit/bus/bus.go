package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

// Errors of publishing and asking, to be told apart with errors.Is.
var (
	// ErrOffline says that there is no connection now.
	ErrOffline = errors.New("not connected to NATS")
	// ErrTooLarge says that the server takes no message of this size.
	ErrTooLarge = errors.New("message exceeds the largest that the NATS server takes")
	// ErrNoResponders says that nobody serves the question.
	ErrNoResponders = errors.New("nobody answers on this subject")
)

// Bus is one process's place on the pool's broadcast. Its methods may be called
// from any goroutine.
type Bus struct {
	cfg    Config
	prefix string // "pointsman.v1.<pool>."
	id     string
	log    *slog.Logger
	health *telemetry.Health
	meters *instruments
	notes  notices

	conn atomic.Pointer[nats.Conn] // nil: offline
	lost chan struct{}             // a reset is due

	mu       sync.Mutex
	started  bool
	inlets   []inlet
	resets   []func()
	outlets  map[Subject]*outlet
	channels map[Subject]*channel
}

// inlet is something that listens on a subject.
type inlet interface {
	// open subscribes on a fresh connection.
	open(nc *nats.Conn) error
}

// New returns a bus of the pool for the process publisherID, see
// [NewPublisherID]. It connects to nothing: see [Bus.Part]. It is an error if a
// file named in cfg cannot be read. Until the first connection the health check
// "nats" says why there is none.
func New(cfg Config, pool, publisherID string, tel *telemetry.Telemetry) (*Bus, error) {
	if err := conf.Prefix("nats", cfg.Validate()); err != nil {
		return nil, err
	}
	if err := cfg.readable(); err != nil {
		return nil, err
	}
	if n := len(publisherID); n == 0 || n > longestID || !utf8.ValidString(publisherID) {
		return nil, fmt.Errorf("publisher id %q: want 1 to %d bytes of UTF-8", publisherID, longestID)
	}
	meters, err := newInstruments(tel.Meter)
	if err != nil {
		return nil, err
	}
	b := &Bus{
		cfg:      cfg,
		prefix:   root + Token(pool) + ".",
		id:       publisherID,
		log:      tel.Log,
		health:   tel.Health,
		meters:   meters,
		lost:     make(chan struct{}, 1),
		outlets:  make(map[Subject]*outlet),
		channels: make(map[Subject]*channel),
	}
	b.meters.setConnected(false)
	b.health.Set(healthCheck, fmt.Errorf("not connected to NATS at %s yet", cfg.location()))
	return b, nil
}

// PublisherID returns the identity of this process on the bus.
func (b *Bus) PublisherID() string { return b.id }

// Connected reports whether messages go out and come in now.
func (b *Bus) Connected() bool {
	nc := b.conn.Load()
	return nc != nil && nc.IsConnected()
}

// OnReset calls f after every reconnection and after messages were dropped
// because they were handled too slowly: state may be out of date then and should
// be asked for. Calls do not overlap, and several causes may share one. Must be
// called before the bus's part runs.
func (b *Bus) OnReset(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mustNotRun("OnReset")
	b.resets = append(b.resets, f)
}

func (b *Bus) listen(in inlet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mustNotRun("Respond")
	b.inlets = append(b.inlets, in)
}

// mustNotRun is called with mu held.
func (b *Bus) mustNotRun(what string) {
	if b.started {
		panic("bus: " + what + " must be called before Part runs")
	}
}

// resetDue notes that OnReset functions are to be called.
func (b *Bus) resetDue() {
	select {
	case b.lost <- struct{}{}:
	default: // one is due already
	}
}

// subject is the full NATS subject of s.
func (b *Bus) subject(s Subject) string { return b.prefix + string(s) }

// noun is the part of a full subject that names it in metrics: "" if it is not
// one of ours, "inbox" for answers.
func (b *Bus) noun(subject string) Subject {
	s, ours := strings.CutPrefix(subject, b.prefix)
	switch {
	case !ours:
		return ""
	case strings.HasPrefix(s, "inbox."):
		return "inbox"
	case strings.HasPrefix(s, "echo."):
		return "echo"
	}
	return Subject(s)
}
