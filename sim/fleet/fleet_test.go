package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/workload"
)

func run(t testing.TB, cfg Config, work workload.Config, p Policy) *Report {
	t.Helper()
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	g, err := workload.New(work)
	if err != nil {
		t.Fatal(err)
	}
	report, err := f.Run(g, p)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func sessions(n int) workload.Config {
	cfg := workload.DefaultConfig()
	cfg.Sessions = n
	return cfg
}

func TestEveryTurnIsAnswered(t *testing.T) {
	work := sessions(60)
	report := run(t, DefaultConfig(), work, Random(1))
	g, _ := workload.New(work)
	want := 0
	for i := range g.Sessions() {
		for s := g.Session(i); ; want++ {
			if _, ok := s.Next(); !ok {
				break
			}
		}
	}
	if len(report.Results) != want {
		t.Errorf("%d results, want %d", len(report.Results), want)
	}
	perEngine := make([]int, 8)
	for _, r := range report.Results {
		perEngine[r.Engine]++
		if r.Reason != engine.Length {
			t.Errorf("request %d ended with %v", r.Number, r.Reason)
		}
		if r.Timing.FirstToken < r.Timing.Admitted || r.Timing.Admitted < r.Timing.Submitted || r.Timing.Ended < r.Timing.FirstToken {
			t.Errorf("request %d: times out of order: %+v", r.Number, r.Timing)
		}
	}
	for i, s := range report.Engines {
		if int(s.Submitted) != perEngine[i] || s.Running+s.Waiting+s.BlocksUsed != 0 {
			t.Errorf("engine %d: %+v, but %d results", i, s, perEngine[i])
		}
	}
}

func TestDeterministic(t *testing.T) {
	for name, policy := range map[string]func() Policy{
		"random": func() Policy { return Random(3) }, "round robin": RoundRobin, "least in flight": LeastInFlight, "sticky": Sticky,
	} {
		t.Run(name, func(t *testing.T) {
			a := run(t, DefaultConfig(), sessions(30), policy())
			b := run(t, DefaultConfig(), sessions(30), policy())
			if diff := cmp.Diff(a, b); diff != "" {
				t.Errorf("two runs differ:\n%s", diff)
			}
		})
	}
}

// What the whole product is about: keeping a conversation where its prefix is cached.
func TestStickyHitsMoreThanRandom(t *testing.T) {
	random := run(t, DefaultConfig(), sessions(150), Random(1))
	sticky := run(t, DefaultConfig(), sessions(150), Sticky())
	t.Log("random:", random)
	t.Log("sticky:", sticky)
	if sticky.HitRate() < 1.5*random.HitRate() {
		t.Errorf("hit rate %.3f sticky, %.3f random", sticky.HitRate(), random.HitRate())
	}
	if sticky.TTFT(0.5)[0] >= random.TTFT(0.5)[0] {
		t.Errorf("TTFT p50 %v sticky, %v random", sticky.TTFT(0.5)[0], random.TTFT(0.5)[0])
	}
}

// spy notes how old the figures are that it sees, and where requests go.
type spy struct {
	Policy
	waiting []int
	picks   int
}

func (s *spy) Pick(now time.Duration, r Request, seen []engine.Stats) int {
	s.picks++
	total := 0
	for _, x := range seen {
		total += x.Running + x.Waiting
	}
	s.waiting = append(s.waiting, total)
	return s.Policy.Pick(now, r, seen)
}

func TestPolicySeesOldFigures(t *testing.T) {
	work := sessions(50)
	work.SessionRate = 1000 // all within one scrape interval
	work.Turns = workload.Always(1)
	cfg := DefaultConfig()
	cfg.ScrapeInterval = 10 * time.Second
	p := &spy{Policy: RoundRobin()}
	run(t, cfg, work, p)
	for i, n := range p.waiting {
		if n != 0 {
			t.Fatalf("pick %d sees %d requests that began after the scrape", i, n)
		}
	}
	cfg.ScrapeInterval = 0
	p = &spy{Policy: RoundRobin()}
	run(t, cfg, work, p)
	if p.waiting[49] < 30 {
		t.Errorf("with live figures the last pick sees %d requests of 49", p.waiting[49])
	}
}

func TestABurstSharesAStep(t *testing.T) {
	work := sessions(4)
	work.SessionRate, work.Turns = 0, workload.Always(1)
	work.SystemPrompts, work.FirstTokens, work.AnswerTokens = 0, workload.Always(10), workload.Always(1)
	cfg := DefaultConfig()
	cfg.Engines = 1
	report := run(t, cfg, work, RoundRobin())
	if got := report.Engines[0].Steps; got != 1 {
		t.Errorf("%d steps for four requests at the same time, want 1", got)
	}
}

func TestRejectedSessionsEnd(t *testing.T) {
	work := sessions(3)
	work.FirstTokens = workload.Always(100)
	cfg := DefaultConfig()
	cfg.Engine.MaxModelLen = 50
	report := run(t, cfg, work, RoundRobin())
	if len(report.Results) != 3 || report.Results[0].Reason != engine.TooLong {
		t.Errorf("results %+v", report.Results)
	}
	if got := report.TTFT(0.5)[0]; got != 0 {
		t.Errorf("TTFT %v of no answers", got)
	}
}

type wrong struct{ Policy }

func (wrong) Pick(time.Duration, Request, []engine.Stats) int { return 8 }

func TestAPolicyThatPicksNobody(t *testing.T) {
	f, _ := New(DefaultConfig())
	g, _ := workload.New(sessions(1))
	if _, err := f.Run(g, wrong{}); err == nil || !strings.Contains(err.Error(), "picked engine 8 of 8") {
		t.Errorf("error %v", err)
	}
}

func TestFaultsAllAtOnce(t *testing.T) {
	_, err := New(Config{ScrapeInterval: -1})
	for _, want := range []string{"Engines", "ScrapeInterval", "BlockSize"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s in %v", want, err)
		}
	}
}

// A fleet of 8 under a chat workload.
func BenchmarkRun(b *testing.B) {
	b.ReportAllocs()
	simulated := 0.0
	for b.Loop() {
		simulated += 8 * run(b, DefaultConfig(), sessions(100), Sticky()).Duration.Seconds()
	}
	b.ReportMetric(simulated/b.Elapsed().Seconds(), "engine-s/s")
}
