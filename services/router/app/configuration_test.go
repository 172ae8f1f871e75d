package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/epconfig"
	"github.com/pointsman/pointsman/services/router/internal/route"
	"github.com/pointsman/pointsman/services/router/internal/route/routetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// anyScorer serves queue-scorer with any parameters.
type anyScorer struct{}

func (anyScorer) Types() []string { return []string{"queue-scorer"} }
func (anyScorer) Resolve(_, typ string, _ []byte) (string, any, bool, []string, error) {
	if typ != "queue-scorer" {
		return "", nil, false, nil, fmt.Errorf("no scorer serves type %q", typ)
	}
	return "scorer-queue", nil, false, nil, nil
}

// farScorer serves queue-scorer and warns until it is reached.
type farScorer struct {
	anyScorer
	reached *atomic.Bool
}

func (f farScorer) Resolve(string, string, []byte) (string, any, bool, []string, error) {
	return "scorer-queue", f, false, []string{"not reachable"}, nil
}

func (f farScorer) Over(string) bool { return f.reached.Load() }

// A warning about a scorer that could not be reached is shown until it is.
func TestWarningsThatEnd(t *testing.T) {
	r := newRig(t, origin{source: "epp.yaml", text: numbered(1), file: "epp.yaml", reload: true})
	var reached atomic.Bool
	r.load = func(source string, text []byte) (*epconfig.Loaded, error) {
		return epconfig.Load(source, text, epconfig.Deps{Scorers: farScorer{reached: &reached}})
	}
	if err := r.begin(); err != nil {
		t.Fatal(err)
	}
	if w := r.status().GetWarnings(); len(w) != 1 || w[0].GetMessage() != "not reachable" || w[0].GetPath() != "plugins[1]" {
		t.Errorf("warnings %v", w)
	}
	reached.Store(true)
	if w := r.status().GetWarnings(); len(w) != 0 {
		t.Errorf("warnings %v", w)
	}
}

// lengthScorer serves context-length-aware, which filters in the router besides.
type lengthScorer struct{ anyScorer }

func (lengthScorer) Resolve(string, string, []byte) (string, any, bool, []string, error) {
	return "scorer-queue", nil, false, nil, nil
}

// numbered is a configuration in which everything says which one it is.
func numbered(n int) []byte {
	return fmt.Appendf(nil, `apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: low-queue-filter, name: filter-%[1]d, parameters: {threshold: %[1]d}}
- {type: queue-scorer, name: scorer-%[1]d}
- {type: max-score-picker, name: picker-%[1]d}
- {type: single-profile-handler, name: handler-%[1]d}
schedulingProfiles:
- name: profile-%[1]d
  plugins:
  - pluginRef: filter-%[1]d
  - {pluginRef: scorer-%[1]d, weight: %[1]d}
  - pluginRef: picker-%[1]d
`, n)
}

// rig is a configuration with what it is used by.
type rig struct {
	*configuration
	tel  *telemetry.Telemetry
	used atomic.Pointer[route.Config]
	log  bytes.Buffer // read when nothing is loaded
}

func newRig(t *testing.T, o origin) *rig {
	t.Helper()
	r := &rig{tel: telemetry.Discard()}
	r.tel.Log = slog.New(slog.NewTextHandler(&r.log, nil))
	load := func(source string, text []byte) (*epconfig.Loaded, error) {
		return epconfig.Load(source, text, epconfig.Deps{Scorers: anyScorer{}})
	}
	var err error
	r.configuration, err = newConfiguration("router-x", o, load, func(l *epconfig.Loaded) { r.used.Store(l.Config) }, r.tel)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) reloads(result string) float64 {
	return r.tel.Value("pointsman_router_config_reloads_total", "result", result)
}

func TestReplace(t *testing.T) {
	r := newRig(t, origin{source: "epp.yaml", text: numbered(1), file: "epp.yaml", reload: true})
	if s := r.status(); s.GetLoadTime() != nil || s.GetLoadCount() != 0 {
		t.Errorf("before the first: %v", s)
	}
	if err := r.begin(); err != nil {
		t.Fatal(err)
	}
	name := func() string { return r.used.Load().Profiles[0].Name }
	want := func(step, profile string, loads uint64, loaded, refused float64, faults ...string) {
		t.Helper()
		s := r.status()
		if name() != profile || s.GetLoadCount() != loads || !strings.Contains(s.GetEffectiveText(), profile) || s.GetSource() != "epp.yaml" || s.GetRouterId() != "router-x" {
			t.Errorf("%s: profile %s, status %v", step, name(), s)
		}
		if r.reloads("loaded") != loaded || r.reloads("refused") != refused {
			t.Errorf("%s: %v loaded and %v refused, want %v and %v", step, r.reloads("loaded"), r.reloads("refused"), loaded, refused)
		}
		ok := 1.0
		if len(faults) > 0 {
			ok = 0
		}
		if got := r.tel.Value("pointsman_router_config_last_attempt_ok"); got != ok {
			t.Errorf("%s: last attempt %v, want %v", step, got, ok)
		}
		got := s.GetLastRefused().GetFaults()
		if len(got) != len(faults) {
			t.Fatalf("%s: faults %v, want %q", step, got, faults)
		}
		for i, f := range faults {
			line := fmt.Sprintf("%s:%d:%d: %s", got[i].GetSource(), got[i].GetLine(), got[i].GetColumn(), got[i].GetMessage())
			if !strings.Contains(line, f) {
				t.Errorf("%s: fault %q, want %q", step, line, f)
			}
			if message := f[strings.LastIndex(f, ": ")+1:]; !strings.Contains(r.log.String(), message) {
				t.Errorf("%s: the log lacks %q:\n%s", step, f, r.log.String())
			}
		}
	}
	want("at the start", "profile-1", 1, 0, 0)
	r.replace(numbered(2), nil, false)
	want("another text", "profile-2", 2, 1, 0)
	r.replace(numbered(2), nil, false)
	want("the same text", "profile-2", 2, 1, 0)
	r.replace(numbered(2), nil, true)
	want("the same text on demand", "profile-2", 3, 2, 0)

	bad := []byte(strings.NewReplacer("queue-scorer", "nope", "threshold: 3", "threshold: x").Replace(string(numbered(3))))
	faults := []string{"epp.yaml:4:68: must be a whole number", "epp.yaml:5:10: unknown plug-in type"}
	r.replace(bad, nil, false)
	want("a bad text", "profile-2", 3, 2, 1, faults...)
	r.replace(bad, nil, false)
	want("the same bad text", "profile-2", 3, 2, 1, faults...)
	r.replace(numbered(2), nil, false)
	want("the good one again", "profile-2", 4, 3, 1)
	r.replace(nil, os.ErrNotExist, false)
	want("the file is gone", "profile-2", 4, 3, 2, "file does not exist")
	r.replace([]byte{}, nil, false)
	want("the file is there and empty", "profile-2", 4, 3, 3, "the file is empty")
	r.replace([]byte{}, nil, false)
	want("the file is empty still", "profile-2", 4, 3, 3, "the file is empty")
	r.replace([]byte(" \n"), nil, false)
	want("the file is a blank line", "profile-2", 4, 3, 4, "the file is empty")
	r.replace(numbered(4), nil, false)
	want("a good one", "profile-4", 5, 4, 4)
}

// B124, D: a text that does not load at the start ends the router.
func TestBadAtTheStart(t *testing.T) {
	r := newRig(t, origin{source: "epp.yaml", text: []byte("kind: x")})
	var faults epconfig.Faults
	if err := r.part(t.Context(), func() { t.Error("ready") }); !errors.As(err, &faults) || len(faults) < 2 {
		t.Errorf("error %v", err)
	}
}

// runPart runs the configuration until the test ends.
func (r *rig) runPart(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- r.part(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (r *rig) awaitProfile(t *testing.T, name string) {
	t.Helper()
	kittest.Eventually(t, name+" to be in use", func() bool { return r.used.Load().Profiles[0].Name == name })
}

func hangup(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

func TestFileIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "epp.yaml")
	write := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(numbered(1))
	r := newRig(t, origin{source: path, text: numbered(1), file: path, reload: true})
	r.runPart(t)
	write(numbered(2))
	r.awaitProfile(t, "profile-2")
	write([]byte("kind: x"))
	kittest.Eventually(t, "the refusal", func() bool { return r.reloads("refused") == 1 })
	if s := r.status(); len(s.GetLastRefused().GetFaults()) < 2 || s.GetLoadCount() != 2 || s.GetReload() != "when the file changes, and on SIGHUP" {
		t.Errorf("status %v", s)
	}
	hangup(t)
	kittest.Eventually(t, "the refusal on SIGHUP", func() bool { return r.reloads("refused") == 2 })
	write(numbered(3))
	r.awaitProfile(t, "profile-3")
	hangup(t)
	kittest.Eventually(t, "the load on SIGHUP", func() bool { return r.status().GetLoadCount() == 4 })
}

// What is not followed stays, and SIGHUP does not end the process.
func TestWhatIsNotFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "epp.yaml")
	if err := os.WriteFile(path, numbered(2), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		origin origin
		words  string
	}{
		{"text", origin{source: "configText", text: numbered(1)}, "never: it is not a file"},
		{"configReload=false", origin{source: path, text: numbered(1), file: path}, "never: --configReload=false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.origin)
			said := &notifying{said: make(chan string, 100)}
			r.configuration.log = slog.New(slog.NewTextHandler(said, nil))
			r.runPart(t)
			hangup(t)
			for line := range said.said {
				if strings.Contains(line, "SIGHUP: the configuration is not read again") {
					break
				}
			}
			if s := r.status(); s.GetReload() != c.words || s.GetLoadCount() != 1 {
				t.Errorf("status %v, want %q", s, c.words)
			}
		})
	}
}

// notifying hands on what is logged.
type notifying struct{ said chan string }

func (n *notifying) Write(p []byte) (int, error) {
	n.said <- string(p)
	return len(p), nil
}

// fan scores, and finds out whether it is asked by one configuration.
type fan struct{ mixed atomic.Int64 }

func (f *fan) Score(_ context.Context, _ *route.Cycle, scorers []route.Scorer, candidates []int32, out []route.Scores) {
	for i, s := range scorers {
		if s.Plugin != fmt.Sprintf("scorer-%d", int(s.Weight)) {
			f.mixed.Add(1)
		}
		out[i] = route.Scores{Verdict: route.Scored, Values: make([]float32, len(candidates))}
		out[i].Values[0] = 1
	}
}

// ledger reserves nothing.
type ledger struct{}

func (ledger) Reserve(*route.Cycle, *roster.Endpoint, *route.ProfileResult) route.Reservation {
	return reservation{}
}

type reservation struct{}

func (reservation) PickID() string           { return "x" }
func (reservation) FirstToken()              {}
func (reservation) Move(*roster.Endpoint)    {}
func (reservation) Finish(bool, route.Usage) {}

// keeper has decisions keep their totals.
type keeper struct{}

func (keeper) Decided(d *route.Decision) { d.Keep() }

// whole says whether a decision was made by one configuration from beginning to end.
func whole(d *route.Decision) error {
	if d.Err != nil || len(d.Results) != 1 {
		return fmt.Errorf("%d results, error %w", len(d.Results), d.Err)
	}
	var n int
	res, p := d.Results[0], d.Config.Profiles[0]
	if _, err := fmt.Sscanf(p.Name, "profile-%d", &n); err != nil {
		return err
	}
	if res.Profile != p || p.Filters[0].Name() != fmt.Sprintf("filter-%d", n) || p.Picker.Name() != fmt.Sprintf("picker-%d", n) ||
		d.Config.Handler.Name() != fmt.Sprintf("handler-%d", n) || math.Abs(res.Totals[0]-float64(n)) > 1e-9 {
		return fmt.Errorf("decided by profile %s with %s, %s, %s, total %v", p.Name, p.Filters[0].Name(), p.Picker.Name(), d.Config.Handler.Name(), res.Totals)
	}
	return nil
}

// 1,000 reloads under load: no decision fails, and none is made by two configurations.
func TestThousandReloadsUnderLoad(t *testing.T) {
	f := &fan{}
	s, err := route.NewScheduler(route.Deps{Roster: routetest.Roster(t, routetest.Pod{}, routetest.Pod{Waiting: 1}), Fan: f, Ledger: ledger{}, Observer: keeper{}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, origin{source: "epp.yaml", text: numbered(1)})
	r.use = func(l *epconfig.Loaded) { s.Use(l.Config) }
	if err := r.begin(); err != nil {
		t.Fatal(err)
	}
	const reloads = 1000
	var decisions, seen atomic.Int64
	last := sync.Map{}
	stop := make(chan struct{})
	var deciding sync.WaitGroup
	for range 4 {
		deciding.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				d := s.Decide(context.Background(), &route.Request{ID: "r"})
				if err := whole(d); err != nil {
					t.Error(err)
					return
				}
				decisions.Add(1)
				if _, known := last.LoadOrStore(d.Config.Profiles[0].Name, true); !known {
					seen.Add(1)
				}
			}
		})
	}
	for i := range reloads {
		before := decisions.Load()
		r.replace(numbered(2+i), nil, false)
		if i%10 == 0 { // a bad one in between changes nothing
			r.replace([]byte("kind: x"), nil, false)
		}
		for decisions.Load() == before && !t.Failed() { // each is decided by
			continue
		}
	}
	close(stop)
	deciding.Wait()
	if f.mixed.Load() != 0 {
		t.Errorf("%d calls were made by mixed configurations", f.mixed.Load())
	}
	if r.reloads("loaded") != reloads || r.reloads("refused") != reloads/10 || seen.Load() < reloads/2 {
		t.Errorf("%v reloads, %v refused, %d configurations decided", r.reloads("loaded"), r.reloads("refused"), seen.Load())
	}
	t.Logf("%d decisions by %d configurations", decisions.Load(), seen.Load())
}

func TestCheckedTellsAll(t *testing.T) {
	good := checked("a.yaml", []byte(strings.Replace(string(numbered(7)), "weight: 7", "weight: -7", 1)), anyScorer{})
	if len(good.GetFaults()) != 0 || len(good.GetWarnings()) != 1 || !strings.Contains(good.GetEffectiveText(), "weight: -7") || len(good.GetPlugins()) != 4 {
		t.Errorf("checked: %v", good)
	}
	p := good.GetPlugins()[1]
	if p.GetService() != "scorer-queue" || p.GetProfiles()[0].GetWeight() != -7 || p.GetProfiles()[0].GetProfile() != "profile-7" || p.GetRole() != "scorer" {
		t.Errorf("plug-in %v", p)
	}
	both := checked("a.yaml", []byte(`apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: context-length-aware, parameters: {enableFiltering: true}}
schedulingProfiles:
- {name: default, plugins: [{pluginRef: context-length-aware, weight: 3}]}
`), lengthScorer{})
	if len(both.GetFaults()) != 0 {
		t.Fatal(both.GetFaults())
	}
	if uses := both.GetPlugins()[0].GetProfiles(); len(uses) != 1 || uses[0].GetWeight() != 3 {
		t.Errorf("a scorer that filters too is used as %v", uses)
	}
	bad := checked("a.yaml", []byte("kind: x\nplugins: 5\n"), anyScorer{})
	if len(bad.GetFaults()) != 3 || bad.GetFaults()[1].GetLine() != 1 || bad.GetFaults()[2].GetColumn() != 10 || bad.GetEffectiveText() != "" {
		t.Errorf("checked: %v", bad)
	}
}
