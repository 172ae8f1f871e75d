package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/test/cluster"
)

// A fault at the start ends the process with a code that is not zero and lines that
// name what is wrong and what to do.
func TestFaultsAtTheStart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	nats := "nats.url=" + kittest.NATS(t)
	quiet := []string{"--set", nats, "--set", "admin.address=127.0.0.1:0"}
	typo, plugin := write("router.yaml", "pool: a\nnatz: {url: x}\n"), write("epp.yaml", `apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorrer
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorrer
`)
	missing := filepath.Join(dir, "missing.yaml")
	for _, tc := range []struct {
		name, binary string
		args         []string
		want         []string // all in the output
	}{
		{"unknown key", "router", []string{"--config", typo}, []string{typo + ":2", "natz", "nats"}},
		{"unknown plug-in", "router", append(quiet, "--configFile", plugin), []string{plugin + ":4", "queue-scorrer", "queue-scorer"}},
		{"the picker's configuration as settings", "router", []string{"--config", plugin}, []string{plugin, "--configFile"}},
		{"both configurations", "router", []string{"--configFile", plugin, "--configText", "x"}, []string{"--configFile", "--configText"}},
		{"no such settings file", "scorer-kv", []string{"--config", missing}, []string{missing}},
		{"no such configuration file", "router", []string{"--configFile", missing}, []string{"--configFile", missing}},
		{"occupied gRPC port", "scorer-queue", append(quiet, "--set", "listen.grpc.address="+busy.Addr().String()), []string{busy.Addr().String(), "listen.grpc"}},
		{"occupied admin port", "prefix-indexer", []string{"--set", nats, "--set", "admin.address=" + busy.Addr().String()}, []string{busy.Addr().String(), "admin.address"}},
		{"a duration without a unit", "metrics-collector", []string{"--set", "scrape.interval=50"}, []string{"scrape.interval", "50"}},
		{"unknown flag", "router", []string{"--nope"}, []string{"nope"}},
		{"no such endpoints file", "metrics-collector", append(quiet, "--set", "endpointsFile="+missing), []string{missing}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			var out bytes.Buffer
			cmd := exec.CommandContext(ctx, cluster.Binary(t, tc.binary), tc.args...)
			cmd.Stderr = &out
			err := cmd.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || ctx.Err() != nil {
				t.Fatalf("want an exit code, got %v; output:\n%s", err, out.String())
			}
			for _, w := range tc.want {
				if !strings.Contains(out.String(), w) {
					t.Errorf("output does not name %q:\n%s", w, out.String())
				}
			}
			if strings.Contains(out.String(), "goroutine ") {
				t.Errorf("a panic or a stack:\n%s", out.String())
			}
		})
	}
}

// NATS that cannot be reached at the start is waited for, visibly.
func TestNATSIsWaitedFor(t *testing.T) {
	port := kittest.FreePort(t)
	url := fmt.Sprintf("nats://127.0.0.1:%d", port)
	admin := fmt.Sprintf("127.0.0.1:%d", kittest.FreePort(t))
	var out syncBuffer
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, cluster.Binary(t, "scorer-queue"), "--set", "nats.url="+url, "--set", "admin.address="+admin, "--set", "listen.grpc.address=127.0.0.1:0")
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { cancel(); <-ended }()
	kittest.Eventually(t, "a line that names the address of NATS", func() bool { return strings.Contains(out.String(), url) })
	ready := func() int {
		resp, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	kittest.Eventually(t, "it to say that it is not ready", func() bool { return ready() == http.StatusServiceUnavailable })
	select {
	case err := <-ended:
		ended <- err
		t.Fatalf("it ended: %v\n%s", err, out.String())
	default:
	}
	kittest.StartNATS(t, port)
	kittest.Eventually(t, "it to notice that NATS has come", func() bool { return strings.Contains(strings.ToLower(out.String()), "connected") })
}
