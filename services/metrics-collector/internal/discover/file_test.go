package discover

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
)

// file is an endpoints file with endpoints at these ports.
func file(ports ...int) string {
	text := "endpoints:\n"
	for _, p := range ports {
		text += fmt.Sprintf("- {address: 10.0.0.1, port: %d}\n", p)
	}
	if len(ports) == 0 {
		text = "endpoints: []\n"
	}
	return text
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, at string) {
	t.Helper()
	if err := os.Symlink(target, at); err != nil {
		t.Fatal(err)
	}
}

func TestFileIsWatched(t *testing.T) {
	for _, poll := range []time.Duration{20 * time.Millisecond, time.Hour} {
		t.Run("polled every "+poll.String(), func(t *testing.T) {
			dir := t.TempDir()
			path := write(t, filepath.Join(dir, "endpoints.yaml"), file(1))
			cfg := quick()
			cfg.EndpointsFile, cfg.Discovery.FileInterval = path, conf.Duration(poll)
			b := newBench(t)
			b.start(cfg)
			b.wait("10.0.0.1:1")

			write(t, path, file(1, 2)) // in place
			b.wait("10.0.0.1:1", "10.0.0.1:2")

			rename(t, write(t, filepath.Join(dir, "new"), file(3)), path) // renamed over
			b.wait("10.0.0.1:3")

			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			kittest.Eventually(t, "the missing file is noticed", func() bool { return b.faults("file") == 1 })
			b.wait("10.0.0.1:3")
			write(t, path, file(4)) // there again
			b.wait("10.0.0.1:4")

			write(t, path, file())
			b.wait()
		})
	}
}

func TestFileInAConfigMap(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "..2026_01", "endpoints.yaml"), file(1))
	link(t, "..2026_01", filepath.Join(dir, "..data"))
	link(t, filepath.Join("..data", "endpoints.yaml"), filepath.Join(dir, "endpoints.yaml"))
	cfg := quick()
	cfg.EndpointsFile, cfg.Discovery.FileInterval = filepath.Join(dir, "endpoints.yaml"), conf.Duration(time.Hour)
	b := newBench(t)
	b.start(cfg)
	b.wait("10.0.0.1:1")
	for n := 2; n < 5; n++ { // as the kubelet does it
		version := fmt.Sprintf("..2026_%02d", n)
		write(t, filepath.Join(dir, version, "endpoints.yaml"), file(n))
		link(t, version, filepath.Join(dir, "..data_tmp"))
		rename(t, filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data"))
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..2026_%02d", n-1))); err != nil {
			t.Fatal(err)
		}
		b.wait(fmt.Sprintf("10.0.0.1:%d", n))
	}
	if b.faults("file") != 0 {
		t.Error("a swap was taken for a failure")
	}
}

func TestBadFileKeepsTheOldEndpoints(t *testing.T) {
	for name, text := range map[string]string{
		"no YAML":         "endpoints: [",
		"unknown key":     "endpoints: []\nendponts: []\n",
		"wrong type":      "endpoints: 3\n",
		"fault":           "endpoints: [{address: 10.0.0.1, port: 0}]\n",
		"twice":           "endpoints: [{address: 10.0.0.1, port: 1}, {address: 10.0.0.1, port: 1}]\n",
		"empty":           "",
		"only a comment":  "# to be written\n",
		"only a key":      "endpoints:\n",
		"not text at all": "\x00\x01\x02",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := write(t, filepath.Join(t.TempDir(), "endpoints.yaml"), file(1))
			cfg := quick()
			cfg.EndpointsFile = path
			b := newBench(t)
			b.start(cfg)
			b.wait("10.0.0.1:1")
			write(t, path, text)
			kittest.Eventually(t, "the fault is counted", func() bool { return b.faults("file") == 1 })
			time.Sleep(5 * cfg.Discovery.FileInterval.D()) // it is read again and again
			if n := b.logged("cannot be used"); n != 1 || b.faults("file") != 1 {
				t.Errorf("%d lines, counted %d times; want once", n, b.faults("file"))
			}
			b.wait("10.0.0.1:1")
			write(t, path, file(2))
			b.wait("10.0.0.1:2")
		})
	}
}

func TestFileMustBeThereAtTheStart(t *testing.T) {
	for name, c := range map[string]struct{ path, want string }{
		"missing": {filepath.Join(t.TempDir(), "none.yaml"), "endpointsFile: open"},
		"wrong":   {write(t, filepath.Join(t.TempDir(), "e.yaml"), "endpoints:\n- {address: 10.0.0.1, port: 80, model: m}\n"), "e.yaml:2:33: endpoints[0].model: unknown key; did you mean models?"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := quick()
			cfg.EndpointsFile = c.path
			d, err := New(cfg, newBench(t).tel, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Part()(t.Context(), func() { t.Error("ready") }); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

func TestFileOfDNSNames(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "endpoints.yaml"), "dns: [{name: a.example, port: 80}]\n")
	cfg := quick()
	cfg.EndpointsFile = path
	b := newBench(t)
	b.zone.set("a.example", nil, "10.0.0.1")
	b.zone.set("b.example", nil, "10.0.0.2")
	b.start(cfg)
	b.wait("10.0.0.1:80")
	write(t, path, "dns: [{name: b.example, port: 81}]\n")
	b.wait("10.0.0.2:81")
	n := b.zone.count("a.example")
	kittest.Eventually(t, "the other name goes on being asked for", func() bool { return b.zone.count("b.example") > 5 })
	if m := b.zone.count("a.example"); m > n+1 {
		t.Error("a name that is no longer listed is still asked for")
	}
}

func FuzzEndpointsFile(f *testing.F) {
	f.Add([]byte("endpoints: [{address: 10.0.0.1, port: 8000, labels: {a: b}, metrics: {path: /m, tls: {caFile: ca.pem}}}]"))
	f.Add([]byte("dns: [{name: pool.example, port: 8000, models: [m, m]}]\nendpoints: []"))
	f.Add([]byte("endpoints:\n- &a {address: '[fd00::1]', port: 1, id: x}\n- {<<: *a, port: 2, id: y}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parse("endpoints.yaml", text)
		if err != nil {
			return
		}
		keys := make(map[string]bool)
		for i := range list.Endpoints {
			target := list.Endpoints[i].target(DefaultsConfig{})
			if target.Host == "" || target.Port == 0 || keys[target.Key()] || !strings.HasPrefix(target.Metrics.Path, "/") {
				t.Errorf("target %+v of a file that was accepted", target)
			}
			keys[target.Key()] = true
			if d := cmp.Diff(target, list.Endpoints[i].target(DefaultsConfig{})); d != "" {
				t.Errorf("the same endpoint twice: %s", d)
			}
		}
	})
}

func TestExampleFile(t *testing.T) {
	text, err := os.ReadFile("../../endpoints.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	list, err := parse("endpoints.example.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Endpoints) != 2 || len(list.DNS) != 1 || list.Endpoints[1].Metrics.TLS.ServerName != "engine-2" {
		t.Errorf("the example is %+v", list)
	}
}
