package app

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	addresses := make(chan string, 3)
	ctx = run.WithAnnounce(ctx, func(service, listener, addr string) {
		if service != "modelserver" || listener != "http" {
			t.Errorf("announced %s %s", service, listener)
		}
		addresses <- addr
	})
	var out bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, []string{"--address", "127.0.0.1:0", "--servers", "3", "--model", "m", "--adapters", "a,b", "--large-page",
			"--num-gpu-blocks", "128", "--max-model-len", "0", "--time-scale", "100", "--dialect", "llm-d-sim", "--ec-role", "producer", "--startup-duration", "1h", "--faults", `{"healthStatus":503}`}, &out)
	}()
	var all []string
	for range 3 {
		all = append(all, <-addresses)
	}
	for _, addr := range all {
		if resp, body := get(t, "http://"+addr+"/v1/models"); resp.StatusCode != http.StatusOK || !strings.Contains(body, `"id":"b"`) || !strings.Contains(body, `"max_model_len":2048`) {
			t.Errorf("%s: %d %s", addr, resp.StatusCode, body)
		}
		if resp, _ := get(t, "http://"+addr+"/health/ready"); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: ready %d, want that of --startup-duration", addr, resp.StatusCode)
		}
		if resp, _ := get(t, "http://"+addr+"/health"); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: health %d, want that of --faults", addr, resp.StatusCode)
		}
		if _, body := get(t, "http://"+addr+"/metrics"); !strings.Contains(body, `num_gpu_blocks="128"`) || !strings.Contains(body, `max_lora="1"`) || len(body) < 40_000 {
			t.Errorf("%s: a page of %d bytes", addr, len(body))
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	for _, addr := range all {
		if want := "modelserver: http listening on " + addr + "\n"; !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in %q", want, out.String())
		}
	}
}

func TestOneFailureEndsAll(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	taken := make(chan string, 1)
	first := make(chan error, 1)
	go func() {
		first <- Run(run.WithAnnounce(ctx, func(_, _, addr string) { taken <- addr }), []string{"--address", "127.0.0.1:0"}, io.Discard)
	}()
	addr := <-taken
	err := Run(ctx, []string{"--address", addr, "--servers", "2"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("error %v, want one that names %s", err, addr)
	}
	cancel()
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"unknown flag", []string{"--modell", "m"}, "modell"},
		{"an argument", []string{"serve"}, `"serve"`},
		{"no servers", []string{"--servers", "0"}, "--servers 0"},
		{"address without a port", []string{"--address", "localhost"}, "--address"},
		{"not so many ports", []string{"--address", "127.0.0.1:65535", "--servers", "2"}, "65535"},
		{"faults of a bad configuration", []string{"--time-scale", "0", "--page", "x"}, "TimeScale"},
		{"unknown connector", []string{"--kv-connector", "lmcache"}, "lmcache"},
		{"a mode without SGLang", []string{"--kv-connector", "nixl", "--disaggregation-mode", "decode"}, "Mode"},
		{"unknown policy", []string{"--kv-load-failure-policy", "retry"}, "retry"},
		{"unknown fault", []string{"--faults", `{"x":1}`}, "faults"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Run(t.Context(), c.args, io.Discard)
			var usage run.UsageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want a usage error with %q", err, c.says)
			}
		})
	}
	var out bytes.Buffer
	if err := Run(t.Context(), []string{"--help"}, &out); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "-time-scale") {
		t.Errorf("help: %v, %s", err, out.String())
	}
}
