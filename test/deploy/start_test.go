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
	t.Parallel()
	o := render(t, base)
	for _, service := range services(t) {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			binary := build(t, service)
			checkStatic(t, binary)
			checkQuiet(t, binary)
			if !slices.Contains(deployed(t), service) {
				return
			}

			nats := fmt.Sprintf("127.0.0.1:%d", kittest.FreePort(t))
			args := append(node{t, o, nil}.arguments(service), "--set=nats.url=nats://"+nats)
			if service == "router" {
				target := fmt.Sprintf("127.0.0.1:%d", kittest.FreePort(t))
				var scorers []string
				for _, name := range []string{"scorer-queue", "scorer-kv", "prefix-indexer"} {
					scorers = append(scorers, fmt.Sprintf("{name: %s, target: %q}", name, target))
				}
				args = append(args, "--set=scorers=["+strings.Join(scorers, ", ")+"]", "--set=redis.address="+target)
			}
			if service == "metrics-collector" {
				args = append(args, "--kubeconfig="+nowhere(t))
			}
			p := cluster.NewProcess(t, service, binary, 1, args...)
			p.Start(t)
			admin := p.Addr("admin")
			checkVersion(t, admin, service)
			_, c, _ := o.container(service)
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

// nowhere is a kubeconfig of an API server that is away.
func nowhere(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{name: x, cluster: {server: 'http://127.0.0.1:%d'}}]\ncontexts: [{name: x, context: {cluster: x}}]\n", kittest.FreePort(t))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// node does what a kubelet would for the containers of a variant, on loopback.
type node struct {
	t       *testing.T
	objects objects
	secrets map[string]string // directories, by the name of the Secret
}

// arguments are those of a container: with its variables, its volumes in directories,
// and followed by what keeps the process on loopback.
func (n node) arguments(service string) []string {
	n.t.Helper()
	pod, c, ok := n.objects.container(service)
	if !ok {
		n.t.Fatalf("nothing runs %s", service)
	}
	paths := n.mount(pod, c)
	args := n.objects.expand(n.t, c)
	for i := range args {
		args[i] = paths.Replace(args[i])
	}
	for _, p := range c.Ports {
		key := "listen." + camel(p.Name) + ".address"
		switch {
		case strings.HasPrefix(p.Name, "admin"):
			key = "admin.address"
		case p.Name == "health":
			key = "listen.extProc.healthAddress"
		}
		args = append(args, "--set="+key+"=127.0.0.1:0")
	}
	return args
}

// mount makes a container's volumes, and returns what replaces their paths. Files of
// ConfigMaps may name paths themselves.
func (n node) mount(pod podSpec, c container) *strings.Replacer {
	n.t.Helper()
	var pairs []string
	files := make(map[string]string) // path → text
	for _, m := range c.VolumeMounts {
		v := pod.Volumes[slices.IndexFunc(pod.Volumes, func(v volume) bool { return v.Name == m.Name })]
		dir := n.secrets[v.Secret.SecretName]
		if v.Secret.SecretName == "" {
			dir = n.t.TempDir()
		}
		if v.EmptyDir != nil {
			dir = n.shared(v.Name)
		}
		pairs = append(pairs, m.MountPath, dir)
		for name, text := range n.objects["ConfigMap/"+v.ConfigMap.Name].Data {
			files[filepath.Join(dir, name)] = text
		}
	}
	r := strings.NewReplacer(pairs...)
	for path, text := range files {
		if err := os.WriteFile(path, []byte(r.Replace(text)), 0o600); err != nil {
			n.t.Fatal(err)
		}
	}
	return r
}

// shared is the directory of a volume that the pod's containers share.
func (n node) shared(volume string) string {
	if n.secrets["emptyDir "+volume] == "" {
		dir, err := os.MkdirTemp("", "pm-") // the path of a socket has at most 108 bytes
		if err != nil {
			n.t.Fatal(err)
		}
		n.t.Cleanup(func() { _ = os.RemoveAll(dir) })
		n.secrets["emptyDir "+volume] = dir
	}
	return n.secrets["emptyDir "+volume]
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
