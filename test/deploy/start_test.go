package deploy

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/test/cluster"
)

// TestImagesStartAsDeployed builds every service as its Dockerfile says and starts it
// with the arguments of its Deployment, on loopback and with NATS away.
func TestImagesStartAsDeployed(t *testing.T) {
	objects := base(t)
	for _, service := range services(t) {
		t.Run(service, func(t *testing.T) {
			binary := build(t, service)
			checkStatic(t, binary)

			nats := fmt.Sprintf("127.0.0.1:%d", kittest.FreePort(t))
			p := cluster.NewProcess(t, service, binary, 1, arguments(t, objects, service, nats)...)
			p.Start(t)
			admin := p.Addr("admin")
			checkVersion(t, admin, service)
			_, c := deployment(t, objects, service)
			if code, text := get(t, admin+c.LivenessProbe.HTTPGet.Path); code != http.StatusOK {
				t.Errorf("not alive: %d %s", code, text)
			}
			if code, text := get(t, admin+c.ReadinessProbe.HTTPGet.Path); code != http.StatusServiceUnavailable || !strings.Contains(text, "nats") {
				t.Errorf("without NATS, readiness is %d %s", code, text)
			}
			kittest.Eventually(t, "the log says what is waited for", func() bool { return strings.Contains(p.Log(), nats) })
			p.Stop(t)
		})
	}
}

// arguments are those of the Deployment, with its volumes in directories and followed
// by what keeps the process on loopback.
func arguments(t *testing.T, objects map[string]manifest, service, nats string) []string {
	t.Helper()
	pod, c := deployment(t, objects, service)
	args := slices.Clone(c.Args)
	for _, m := range c.VolumeMounts {
		dir := t.TempDir()
		v := pod.Volumes[slices.IndexFunc(pod.Volumes, func(v volume) bool { return v.Name == m.Name })]
		for name, text := range objects["ConfigMap/"+v.ConfigMap.Name].Data {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		used := false
		for i := range args {
			used = used || strings.Contains(args[i], m.MountPath)
			args[i] = strings.ReplaceAll(args[i], m.MountPath, dir)
		}
		if !used {
			t.Errorf("no argument names %s, where %s is mounted", m.MountPath, m.Name)
		}
	}
	args = append(args, "--set=nats.url=nats://"+nats)
	for _, p := range c.Ports {
		key := "listen." + camel(p.Name) + ".address"
		switch p.Name {
		case "admin":
			key = "admin.address"
		case "health":
			key = "listen.extProc.healthAddress"
		}
		args = append(args, "--set="+key+"=127.0.0.1:0")
	}
	if service == "router" {
		target := fmt.Sprintf("127.0.0.1:%d", kittest.FreePort(t))
		var scorers []string
		for _, name := range []string{"scorer-queue", "scorer-kv", "prefix-indexer"} {
			scorers = append(scorers, fmt.Sprintf("{name: %s, target: %q}", name, target))
		}
		args = append(args, "--set=scorers=["+strings.Join(scorers, ", ")+"]")
	}
	return args
}

// camel spells the name of a port as a key: "ext-proc" is extProc.
func camel(name string) string {
	words := strings.Split(name, "-")
	for i := 1; i < len(words); i++ {
		words[i] = strings.ToUpper(words[i][:1]) + words[i][1:]
	}
	return strings.Join(words, "")
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get("http://" + url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}
