package discover

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/run"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a discoverer that runs, with what it tells and logs.
type bench struct {
	t      *testing.T
	tel    *telemetry.Telemetry
	zone   *zone
	done   chan error
	policy func(*fleet.Policy)

	mu    sync.Mutex
	sets  [][]*fleet.Target
	lines bytes.Buffer
}

func (b *bench) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.Write(p)
}

func (b *bench) logged(substring string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.lines.String(), substring)
}

// zone answers for names.
type zone struct {
	mu      sync.Mutex
	answers map[string]func() ([]netip.Addr, error)
	asked   map[string]int
}

var (
	errServfail = &net.DNSError{Err: "server misbehaving", IsTemporary: true}
	errNotFound = &net.DNSError{Err: "no such host", IsNotFound: true}
)

func (z *zone) set(name string, err error, addresses ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.answers[name] = func() (out []netip.Addr, _ error) {
		for _, a := range addresses {
			out = append(out, netip.MustParseAddr(a))
		}
		return out, err
	}
}

func (z *zone) lookup(_ context.Context, name string) ([]netip.Addr, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked[name]++
	if a := z.answers[name]; a != nil {
		return a()
	}
	return nil, errors.New("nobody has set this name")
}

func (z *zone) count(name string) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.asked[name]
}

func newBench(t *testing.T) *bench {
	return &bench{
		t: t, tel: telemetry.Discard(), done: make(chan error, 1),
		zone: &zone{answers: make(map[string]func() ([]netip.Addr, error)), asked: make(map[string]int)},
	}
}

// start runs a discoverer until the test ends.
func (b *bench) start(cfg Config) {
	b.t.Helper()
	b.tel.Log = slog.New(slog.NewTextHandler(b, nil))
	d, err := New(cfg, b.tel, func(ts []*fleet.Target) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.sets = append(b.sets, ts)
	})
	if err != nil {
		b.t.Fatal(err)
	}
	d.lookup = b.zone.lookup
	d.OnPolicy(b.policy)
	g := run.NewGroup(nil)
	g.Add("discovery", d.Part())
	ctx, cancel := context.WithCancel(b.t.Context())
	go func() { b.done <- g.Run(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-b.done; err != nil {
			b.t.Error(err)
		}
	})
}

func (b *bench) keys() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.sets) == 0 {
		return nil
	}
	keys := []string{}
	for _, t := range b.sets[len(b.sets)-1] {
		keys = append(keys, t.Key())
	}
	return keys
}

func (b *bench) told() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sets)
}

// wait waits until exactly these endpoints are told.
func (b *bench) wait(keys ...string) {
	b.t.Helper()
	if keys == nil {
		keys = []string{}
	}
	kittest.Eventually(b.t, "the endpoints are "+strings.Join(keys, ", "), func() bool {
		got := b.keys()
		return got != nil && slices.Equal(got, keys)
	})
}

func (b *bench) faults(source string) int {
	return int(b.tel.Value("pointsman_metrics_collector_discovery_errors_total", "source", source))
}

func quick() Config {
	cfg := DefaultConfig()
	cfg.Discovery = PaceConfig{FileInterval: conf.Duration(20 * time.Millisecond), DNSInterval: conf.Duration(5 * time.Millisecond), DNSTimeout: conf.Duration(time.Second)}
	return cfg
}

func write(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func addrs(texts ...string) (out []netip.Addr) {
	for _, a := range texts {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}
