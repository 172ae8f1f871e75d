package up

import (
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/pointsman/pointsman/internal/kit/kittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// screen is what a user sees.
type screen struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// With the scorers within the routers the same comes up, and requests are scored.
func TestUpEmbedded(t *testing.T) {
	var out screen
	ctx, interrupt := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, []string{"--servers", "2", "--routers", "2", "--embedded", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--speed", "20", "--log", "error"}, &out)
	}()
	kittest.Eventually(t, "the addresses to be printed", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v\n%s", err, out.String())
		default:
		}
		return strings.Contains(out.String(), "Decisions, as they happen:")
	})
	url := regexp.MustCompile(`OpenAI API (http://\S+)`).FindStringSubmatch(out.String())[1]
	metrics := regexp.MustCompile(`metrics (http://\S+)`).FindStringSubmatch(out.String())[1]
	resp, err := http.Post(url+"/chat/completions", "application/json", strings.NewReader(`{"model":"sim-model","messages":[{"role":"user","content":"Hello"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	page, err := http.Get(metrics)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(page.Body)
	_ = page.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pointsman_scorer_queue_calls_total", "pointsman_scorer_kv_calls_total", "pointsman_prefix_indexer_calls_total"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the router's page lacks %s: the scorer within was not asked", want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// The first minutes of a newcomer: addresses are printed, a request is answered, the
// decision is shown, Ctrl-C ends all of it and leaves nothing running.
func TestUp(t *testing.T) {
	var out screen
	ctx, interrupt := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, []string{"--servers", "2", "--routers", "2", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--extProc", "127.0.0.1:0", "--speed", "20", "--log", "error"}, &out)
	}()
	kittest.Eventually(t, "the addresses to be printed", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v\n%s", err, out.String())
		default:
		}
		return strings.Contains(out.String(), "Decisions, as they happen:")
	})
	found := regexp.MustCompile(`router-[12] +OpenAI API (http://\S+)/v1`).FindAllStringSubmatch(out.String(), -1)
	if len(found) != 2 {
		t.Fatalf("addresses of two routers are not in:\n%s", out.String())
	}
	if strings.Count(out.String(), " ext_proc 127.0.0.1:") != 1 {
		t.Errorf("the address of one ext_proc front is not in:\n%s", out.String())
	}
	for _, f := range found {
		tr := &http.Transport{}
		resp, err := (&http.Client{Transport: tr}).Post(f[1]+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"sim-model","max_tokens":4,"messages":[{"role":"user","content":"Hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		tr.CloseIdleConnections()
		if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("x-pointsman-endpoint") == "" {
			t.Errorf("status %d, error %v: %s", resp.StatusCode, err, body)
		}
	}
	kittest.Eventually(t, "both decisions to be shown", func() bool { return strings.Count(out.String(), "→ 127.0.0.1:") == 2 })
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// The pool that the router's own settings name is that of everything that comes up:
// scorers are not ready, and endpoints not known, before the pool is heard of.
func TestUpInAPoolOfAnotherName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "router.yaml")
	if err := os.WriteFile(file, []byte("pool: prod/vllm\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out screen
	ctx, interrupt := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, []string{"--servers", "1", "--config", file, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--speed", "20", "--log", "error", "--quiet"}, &out)
	}()
	kittest.Eventually(t, "it to be up", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v\n%s", err, out.String())
		default:
		}
		return strings.Contains(out.String(), "Pointsman is up")
	})
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestFlags(t *testing.T) {
	if _, err := parse([]string{"--help"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("help: %v", err)
	}
	for _, args := range [][]string{{"--servers", "0"}, {"--servers", "2", "--prefill", "2"}, {"--prefill", "-1"}, {"--routers", "9"}, {"--speed", "0"}, {"--speed", "NaN"}, {"left", "over"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v were taken", args)
		}
	}
	err := Run(context.Background(), []string{"--log", "loud"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "loud") {
		t.Errorf("log level: %v", err)
	}
}

// An address that cannot be listened on is told of by the flag that gave it.
func TestBadAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	flags := map[string]string{"--http": "127.0.0.1:0", "--grpc": "127.0.0.1:0", "--extProc": "127.0.0.1:0", "--admin": "127.0.0.1:0"}
	for flag := range flags {
		args := []string{"--servers", "1", "--log", "error"}
		for f, address := range flags {
			if f == flag {
				address = l.Addr().String()
			}
			args = append(args, f, address)
		}
		err := Run(context.Background(), args, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "another with "+flag+" HOST:PORT") || strings.Contains(err.Error(), "address:") || strings.Contains(err.Error(), "--set") {
			t.Errorf("%s: %v", flag, err)
		}
	}
	err = Run(context.Background(), []string{"--servers", "1", "--log", "error", "--http", "8080", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "--http: listen on 8080: missing port") {
		t.Errorf("no host: %v", err)
	}
}
