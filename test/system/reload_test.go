package system

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/test/cluster"
)

// numbered is a configuration in which everything says which one it is.
func numbered(n int) string {
	return fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: queue-scorer, name: queue-%[1]d}
- {type: prefix-cache-scorer, name: prefix-%[1]d, parameters: {hashBlockSize: %[2]d}}
- {type: max-score-picker, name: picker-%[1]d}
- {type: single-profile-handler}
schedulingProfiles:
- name: profile-%[1]d
  plugins:
  - {pluginRef: queue-%[1]d, weight: %[1]d}
  - {pluginRef: prefix-%[1]d, weight: %[1]d}
  - pluginRef: picker-%[1]d
`, n, 32+32*(n%2))
}

// ofOne says why a decision was not made by one configuration.
func ofOne(d *routerv1.Decision) error {
	if d.GetError() != "" || len(d.GetProfiles()) != 1 {
		return fmt.Errorf("%d profiles, error %q", len(d.GetProfiles()), d.GetError())
	}
	var n int
	p := d.GetProfiles()[0]
	if _, err := fmt.Sscanf(p.GetProfile(), "profile-%d", &n); err != nil {
		return err
	}
	if len(p.GetScorers()) != 2 || p.GetPicker() != fmt.Sprintf("picker-%d", n) {
		return fmt.Errorf("%s with picker %s and %d scorers", p.GetProfile(), p.GetPicker(), len(p.GetScorers()))
	}
	for i, kind := range []string{"queue", "prefix"} {
		if s := p.GetScorers()[i]; s.GetPlugin() != fmt.Sprintf("%s-%d", kind, n) || s.GetWeight() != float64(n) {
			return fmt.Errorf("%s with scorer %s, weight %v", p.GetProfile(), s.GetPlugin(), s.GetWeight())
		}
	}
	return nil
}

// watchDecisions checks every decision of a router until stop is called, which
// returns how many there were and by how many configurations.
func watchDecisions(t *testing.T, c routerv1.RouterServiceClient) (stop func() (int64, int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := c.WatchDecisions(ctx, &routerv1.WatchDecisionsRequest{})
	if err == nil {
		_, err = w.Header() // from here on none is missed
	}
	if err != nil {
		t.Fatal(err)
	}
	var seen atomic.Int64
	by := make(map[string]bool)
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			m, err := w.Recv()
			if err != nil {
				return
			}
			if err := ofOne(m.GetDecision()); err != nil {
				t.Error(err)
			}
			by[m.GetDecision().GetProfiles()[0].GetProfile()] = true
			seen.Add(1)
		}
	})
	return func() (int64, int) {
		cancel()
		watching.Wait()
		return seen.Load(), len(by)
	}
}

// mount is a directory as Kubernetes mounts a ConfigMap: epp.yaml leads to
// ..data/epp.yaml, and ..data to a directory that is replaced by another.
type mount struct {
	dir  string
	next int
}

// put changes the content in one step.
func (m *mount) put(t *testing.T, text string) {
	t.Helper()
	m.next++
	version := fmt.Sprintf("..version-%d", m.next)
	err := os.Mkdir(filepath.Join(m.dir, version), 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(m.dir, version, "epp.yaml"), []byte(text), 0o600)
	}
	if err == nil {
		err = os.Symlink(version, filepath.Join(m.dir, "..data_tmp"))
	}
	if err == nil {
		err = os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data"))
	}
	if err == nil && m.next == 1 {
		err = os.Symlink(filepath.Join("..data", "epp.yaml"), m.file())
	}
	if err == nil && m.next > 1 {
		err = os.RemoveAll(filepath.Join(m.dir, fmt.Sprintf("..version-%d", m.next-1)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (m *mount) file() string { return filepath.Join(m.dir, "epp.yaml") }

func status(t *testing.T, c routerv1.RouterServiceClient) *routerv1.GetConfigStatusResponse {
	t.Helper()
	s, err := c.GetConfigStatus(t.Context(), &routerv1.GetConfigStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func awaitProfile(t *testing.T, c routerv1.RouterServiceClient, n int) {
	t.Helper()
	kittest.Eventually(t, fmt.Sprintf("profile-%d", n), func() bool {
		return strings.Contains(status(t, c).GetEffectiveText(), fmt.Sprintf("profile-%d\n", n))
	})
}

// 1,000 reloads of a router under load, by SIGHUP and by the swap of a ConfigMap's
// link: no request fails, and no decision is made by two configurations.
func TestReloadsUnderLoad(t *testing.T) {
	m := &mount{dir: t.TempDir()}
	m.put(t, numbered(1))
	c := cluster.Start(t, cluster.Options{Servers: 3, Server: fast, ConfigFile: m.file()})
	router := c.Router(t, 0)
	unwatch := watchDecisions(t, router)
	stop := background(t, c, 4, false)
	n := 1
	for range 1000 {
		n++
		m.put(t, numbered(n))
		if n%50 != 0 { // now and then the swap has to do
			c.Routers[0].Signal(t, syscall.SIGHUP)
		}
		awaitProfile(t, router, n)
	}
	served := stop()
	decisions, configurations := unwatch()
	if decisions < 1000 || configurations < 100 {
		t.Errorf("%d decisions by %d configurations were seen: there was no load", decisions, configurations)
	}
	if s := status(t, router); s.GetLoadCount() < 1001 || s.GetLastRefused() != nil {
		t.Errorf("loaded %d times, refused: %v", s.GetLoadCount(), s.GetLastRefused())
	}
	t.Logf("%d requests served, %d decisions seen, by %d configurations", served, decisions, configurations)
}

// A bad configuration is refused with all that is wrong with it, and the old one stays
// in use, whatever way it came by.
func TestBadReload(t *testing.T) {
	m := &mount{dir: t.TempDir()}
	m.put(t, numbered(1))
	c := cluster.Start(t, cluster.Options{Servers: 2, Server: fast, ConfigFile: m.file()})
	router := c.Router(t, 0)
	unwatch := watchDecisions(t, router)
	stop := background(t, c, 2, false)
	refused := func() float64 {
		return c.Metric(t, 0, "pointsman_router_config_reloads_total", `result="refused"`)
	}

	// The parameters are refused by the scorer service, the rest by the router.
	bad := strings.NewReplacer("hashBlockSize: 32", "hashBlockSize: 0", "max-score-picker", "max-score-pickr").Replace(numbered(2))
	m.put(t, bad)
	kittest.Eventually(t, "the refusal", func() bool { return refused() == 1 })
	s := status(t, router)
	if len(s.GetLastRefused().GetFaults()) != 2 || s.GetLoadCount() != 1 || !strings.Contains(s.GetEffectiveText(), "profile-1\n") {
		t.Fatalf("status: %v", s)
	}
	for i, want := range []string{"5:75 plugins[1].parameters.hashBlockSize", "6:10 plugins[2].type"} {
		f := s.GetLastRefused().GetFaults()[i]
		if got := fmt.Sprintf("%d:%d %s", f.GetLine(), f.GetColumn(), f.GetPath()); got != want {
			t.Errorf("fault at %s, want %s", got, want)
		}
		if !strings.Contains(c.Routers[0].Log(), f.GetMessage()[:20]) {
			t.Errorf("the log lacks %q", f.GetMessage())
		}
	}
	c.Routers[0].Signal(t, syscall.SIGHUP)
	kittest.Eventually(t, "the refusal on SIGHUP", func() bool { return refused() == 2 })
	m.put(t, "")
	kittest.Eventually(t, "the refusal of nothing", func() bool { return refused() == 3 })
	m.put(t, numbered(4))
	awaitProfile(t, router, 4)
	if s := status(t, router); s.GetLastRefused() != nil || c.Metric(t, 0, "pointsman_router_config_last_attempt_ok", "") != 1 {
		t.Errorf("still refused: %v", s.GetLastRefused())
	}
	if stop() == 0 {
		t.Error("no request was served")
	}
	unwatch()
}

// A router checks a configuration, with its scorers, without using it.
func TestRouterChecksConfigurations(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Servers: 1, Server: fast, ConfigText: numbered(1)})
	router := c.Router(t, 0)
	got, err := router.CheckConfig(t.Context(), &routerv1.CheckConfigRequest{Source: "new.yaml", Text: strings.Replace(numbered(2), "hashBlockSize: 32", "hashBlockSiz: 5", 1)})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.GetFaults()) != 1 || !strings.Contains(got.GetFaults()[0].GetMessage(), "did you mean hashBlockSize?") || got.GetFaults()[0].GetSource() != "new.yaml" {
		t.Errorf("faults %v", got.GetFaults())
	}
	if got, err = router.CheckConfig(t.Context(), &routerv1.CheckConfigRequest{Text: numbered(2)}); err != nil || len(got.GetFaults()) != 0 || got.GetPlugins()[1].GetService() != "prefix-indexer" {
		t.Errorf("good one: %v, error %v", got, err)
	}
	s := status(t, router)
	if !strings.Contains(s.GetEffectiveText(), "profile-1\n") || s.GetReload() != "never: it is not a file" {
		t.Errorf("status %v", s)
	}
	// SIGHUP has nothing to read again, and does not end the router.
	c.Routers[0].Signal(t, syscall.SIGHUP)
	kittest.Eventually(t, "the word on SIGHUP", func() bool {
		return strings.Contains(c.Routers[0].Log(), "SIGHUP: the configuration is not read again")
	})
}
