package bus

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// process is a bus with the telemetry of its own process.
type process struct {
	*Bus
	tel *telemetry.Telemetry
	log *journal
}

// newProcess makes a bus that does not run yet.
func newProcess(t *testing.T, url, pool, id string, tweaks ...func(*Config)) *process {
	t.Helper()
	cfg := DefaultConfig()
	cfg.URL = url
	for _, tweak := range tweaks {
		tweak(&cfg)
	}
	p := &process{tel: telemetry.Discard(), log: &journal{}}
	p.tel.Log = slog.New(slog.NewTextHandler(p.log, nil))
	b, err := New(cfg, pool, id, p.tel)
	if err != nil {
		t.Fatal(err)
	}
	p.Bus = b
	return p
}

// run starts the part, which ends with the test or when stop is called.
func (p *process) run(t *testing.T) (ready <-chan struct{}, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- p.Part()(ctx, func() { close(up) }) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the bus ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return up, stop
}

// start runs the part and waits until it is ready.
func (p *process) start(t *testing.T) *process {
	t.Helper()
	ready, _ := p.run(t)
	await(t, "the bus is ready", ready)
	return p
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	kittest.Eventually(t, what, func() bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	})
}

// unready is the reason of the health check "nats", "" if it is ok.
func (p *process) unready() string {
	if ok, reasons := p.tel.Health.Ready(); !ok {
		return reasons[0]
	}
	return ""
}

// journal is a log that may be read while it is written.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return bytes.Count(j.buf.Bytes(), []byte(text))
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

// inbox gathers messages.
type inbox[M any] struct {
	mu   sync.Mutex
	got  []M
	meta []Meta
}

func (i *inbox[M]) add(m M, meta Meta) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.got, i.meta = append(i.got, m), append(i.meta, meta)
}

func (i *inbox[M]) all() ([]M, []Meta) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]M(nil), i.got...), append([]Meta(nil), i.meta...)
}

func (i *inbox[M]) len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.got)
}

func newHeartbeat() *statev1.CollectorHeartbeat { return &statev1.CollectorHeartbeat{} }

func stampHeartbeat(m *statev1.CollectorHeartbeat, s *statev1.Stamp) { m.Stamp = s }

func heartbeats(p *process) *inbox[*statev1.CollectorHeartbeat] {
	i := &inbox[*statev1.CollectorHeartbeat]{}
	Subscribe(p.Bus, Collector, newHeartbeat, i.add)
	return i
}

func heartbeatPublisher(p *process) *Publisher[*statev1.CollectorHeartbeat] {
	return NewPublisher(p.Bus, Collector, stampHeartbeat)
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
