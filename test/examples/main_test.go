package examples

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	routerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/router/v1"
	"github.com/pointsman/pointsman/sim/modelserver"
	"github.com/pointsman/pointsman/test/cluster"
)

func TestMain(m *testing.M) {
	code := m.Run()
	cluster.Clean()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// root is the repository's directory.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

func free(t testing.TB) string { return fmt.Sprintf("127.0.0.1:%d", kittest.FreePort(t)) }

// command runs a command in a directory of the repository and fails the test if it does.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(root(), dir)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s in %s: %v\n%s", name, strings.Join(args, " "), dir, err, out)
	}
	return string(out)
}

// built are the examples as they are run.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func build() error {
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "pointsman-examples-"); built.err != nil {
			return
		}
		tsc := exec.Command("npm", "run", "build", "--silent")
		tsc.Dir = filepath.Join(root(), "examples", "scorer-typescript")
		goBuild := exec.Command("go", "build", "-o", built.dir+"/", ".")
		goBuild.Dir, goBuild.Env = filepath.Join(root(), "examples", "scorer-go"), append(os.Environ(), "GOWORK=off")
		for _, cmd := range []*exec.Cmd{tsc, goBuild} {
			if out, err := cmd.CombinedOutput(); err != nil {
				built.err = fmt.Errorf("build in %s: %w\n%s", cmd.Dir, err, out)
				return
			}
		}
	})
	return built.err
}

// example is one of the examples.
type example struct {
	name string // of the directory
	typ  string // that it serves
	// labels are what its endpoints should have, for scorer verify.
	labels string
}

func all() []example {
	return []example{
		{"scorer-typescript", "zone-scorer", "zone=a,b"},
		{"scorer-python", "two-choices-scorer", ""},
		{"scorer-go", "carbon-scorer", "topology.kubernetes.io/region=se,pl,fr"},
	}
}

// process describes an example as a process that listens on the address.
func (e example) process(t *testing.T, address string, args ...string) *cluster.Process {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root(), "examples", e.name)
	args = append([]string{"--listen", address}, args...)
	switch e.name {
	case "scorer-typescript":
		return cluster.NewProcess(t, e.name, "node", 1, append([]string{filepath.Join(dir, "dist", "main.js")}, args...)...)
	case "scorer-python":
		return cluster.NewProcess(t, e.name, filepath.Join(root(), ".tools", "venv-scorer-python", "bin", "python"), 1, append([]string{filepath.Join(dir, "scorer.py")}, args...)...)
	default:
		return cluster.NewProcess(t, e.name, filepath.Join(built.dir, "carbon-scorer"), 1, append([]string{"--file", filepath.Join(dir, "carbon.json")}, args...)...)
	}
}

// start runs an example and returns its address.
func (e example) start(t *testing.T, args ...string) string {
	t.Helper()
	p := e.process(t, "127.0.0.1:0", args...)
	p.Start(t)
	return p.Addr("grpc")
}

// quick makes simulated servers answer at once.
func quick(_ int, cfg *modelserver.Config) { cfg.TimeScale = 50 }

// ask sends one chat request with headers and returns the status and who answered.
func ask(t testing.TB, url, id string, headers map[string]string) (status int, endpoint string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions",
		strings.NewReader(fmt.Sprintf(`{"model":"sim-model","max_tokens":2,"messages":[{"role":"user","content":"%s"}]}`, id)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("x-pointsman-endpoint")
}

// scorerStatus is what `pointsman scorers` shows of one.
func scorerStatus(t testing.TB, c routerv1.RouterServiceClient, name string) *routerv1.ScorerStatus {
	t.Helper()
	m, err := c.ListScorers(t.Context(), &routerv1.ListScorersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range m.GetScorers() {
		if s.GetName() == name {
			return s
		}
	}
	return nil
}

// ready says whether a scorer of that name has a replica that calls go to.
func ready(t testing.TB, c routerv1.RouterServiceClient, name string) bool {
	t.Helper()
	for _, r := range scorerStatus(t, c, name).GetReplicas() {
		if r.GetReady() {
			return true
		}
	}
	return false
}

// config is an EndpointPickerConfig whose one profile has the scorers, by "type: weight".
func config(scorers ...string) string {
	var plugins, refs strings.Builder
	for _, s := range scorers {
		typ, weight, _ := strings.Cut(s, ": ")
		fmt.Fprintf(&plugins, "- type: %s\n", typ)
		fmt.Fprintf(&refs, "  - {pluginRef: %s, weight: %s}\n", typ, weight)
	}
	return "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n" + plugins.String() +
		"schedulingProfiles:\n- name: default\n  plugins:\n" + refs.String()
}
