package scale

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/bench/internal/load"
	"github.com/pointsman/pointsman/bench/internal/measure"
	"github.com/pointsman/pointsman/bench/internal/mesh"
	"github.com/pointsman/pointsman/bench/internal/procstat"
	"github.com/pointsman/pointsman/bench/internal/traffic"
)

func part(cpu time.Duration, mib uint64, s mesh.Sample) mesh.Sample {
	s.Usage = procstat.Process{CPU: cpu, ResidentBytes: mib << 20}
	return s
}

// Replicas are summed up, and what a mesh uses without load is no part of a pick.
func TestRound(t *testing.T) {
	s := &mesh.Subject{Parts: []mesh.Part{{Name: bus, Monitor: "x"}, {Name: collector}, {Name: router}, {Name: router}}}
	idle := newRound(s, measure.Figures{
		Result: load.Result{Window: 2 * time.Second},
		Parts: []mesh.Sample{
			part(20*time.Millisecond, 30, mesh.Sample{Traffic: traffic.Server{MessagesIn: 40, MessagesOut: 80, BytesIn: 4000, BytesOut: 8000}}),
			part(100*time.Millisecond, 50, mesh.Sample{}), part(10*time.Millisecond, 40, mesh.Sample{}), part(10*time.Millisecond, 60, mesh.Sample{}),
		},
	}, nil)
	busy := newRound(s, measure.Figures{
		Result: load.Result{Window: time.Second, Completed: 1000, Failed: 2, Errors: map[string]int{"late": 2}, Latencies: []time.Duration{time.Millisecond, 3 * time.Millisecond}},
		Parts: []mesh.Sample{
			part(20*time.Millisecond, 31, mesh.Sample{Traffic: traffic.Server{MessagesIn: 520, MessagesOut: 1040, BytesIn: 102_000, BytesOut: 204_000}}),
			part(50*time.Millisecond, 50, mesh.Sample{}),
			part(60*time.Millisecond, 40, mesh.Sample{Calls: 30, Answered: 30}), part(50*time.Millisecond, 60, mesh.Sample{Calls: 10, Answered: 6}),
		},
		StealShare: 0.1, OtherShare: 0.2,
	}, &idle)
	c := Case{Endpoints: 10, Routers: 2, Indexers: 1, Scorers: 1, BodyBytes: kb, Load: Open}
	w := newRow(c, []round{busy})
	want := Row{
		Case: c, Rounds: 1, Failures: 2, Errors: map[string]int{"late": 2},
		PicksPerSecond: exactly(1000), PickMicros: exactly(110), P50Ms: exactly(3), P99Ms: exactly(3),
		UnansweredShare: exactly(0.1), StealShare: exactly(0.1), OtherShare: exactly(0.2),
		Kinds: []Kind{
			{Name: bus, Replicas: 1, CPU: exactly(20_000), PickMicros: exactly(10), ResidentMiB: exactly(31)},
			{Name: collector, Replicas: 1, CPU: exactly(50_000), PickMicros: exactly(0), ResidentMiB: exactly(50)},
			{Name: router, Replicas: 2, CPU: exactly(110_000), PickMicros: exactly(100), ResidentMiB: exactly(50)},
		},
		NATS:        Traffic{exactly(520), exactly(1040), exactly(102_000), exactly(204_000)},
		NATSPerPick: Traffic{exactly(0.5), exactly(1), exactly(100), exactly(200)},
	}
	if diff := cmp.Diff(want, w, cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })); diff != "" {
		t.Error(diff)
	}
	if got := w.Kind("nobody"); got.CPU.Median != 0 || got.Name != "nobody" {
		t.Errorf("%+v", got)
	}
}

func TestConfig(t *testing.T) {
	good := DefaultConfig()
	good.Binaries, good.Self = "bin", "bench"
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no binaries":  func(c *Config) { c.Binaries = "" },
		"no setups":    func(c *Config) { c.Setups = nil },
		"no endpoints": func(c *Config) { c.Setups[0].Endpoints = 0 },
		"no routers":   func(c *Config) { c.Setups[0].Routers = 0 },
		"no sizes":     func(c *Config) { c.Setups[0].Bodies = nil },
		"tiny bodies":  func(c *Config) { c.Setups[0].Bodies = []int{1} },
		"no rate":      func(c *Config) { c.Rate = 0 },
		"no window":    func(c *Config) { c.Idle = 0 },
	} {
		c := DefaultConfig()
		c.Binaries, c.Self = "bin", "bench"
		spoil(&c)
		if c.Validate() == nil {
			t.Errorf("%s: a wrong configuration was taken", name)
		}
	}
}
