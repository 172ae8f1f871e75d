package app

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
)

// asEngines makes the test binary many model servers, for the benchmark.
const asEngines = "POINTSMAN_TEST_ENGINES"

const (
	benchEndpoints = 100
	benchTime      = 10 * time.Second
)

// largePage is a real page of vLLM, with as many more histograms as make it 58 KB, the
// size of a server's with some models.
func largePage() ([]byte, error) {
	page, err := os.ReadFile(filepath.Join("..", "internal", "engine", "testdata", "vllm.txt"))
	if err != nil {
		return nil, err
	}
	var buckets [][]byte
	for line := range bytes.Lines(page) {
		if bytes.Contains(line, []byte("_bucket{")) {
			buckets = append(buckets, line)
		}
	}
	for i := 0; len(page) < 58_000; i++ {
		page = append(page, bytes.Replace(buckets[i%len(buckets)], []byte("vllm:"), []byte("vllm:more_"), 1)...)
	}
	return page, nil
}

// serveEngines serves the page at as many addresses until standard input ends.
func serveEngines() error {
	page, err := largePage()
	if err != nil {
		return err
	}
	first, err := net.Listen("tcp", "127.0.8.1:0")
	if err != nil {
		return err
	}
	port := first.Addr().(*net.TCPAddr).Port
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(page)))
		_, _ = w.Write(page)
	})
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(first) }()
	for i := 2; i <= benchEndpoints; i++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.8.%d:%d", i, port))
		if err != nil {
			return err
		}
		go func() { _ = server.Serve(l) }()
	}
	fmt.Println(port)
	_, _ = io.Copy(io.Discard, os.Stdin) // the benchmark ends
	return nil
}

// BenchmarkHundredEndpoints is what a collector costs that scrapes 100 endpoints with
// pages of 58 KB every 50 ms: processor time of its process alone, HTTP included.
func BenchmarkHundredEndpoints(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	engines := exec.Command(self)
	engines.Env = append(os.Environ(), asEngines+"=1")
	in, errIn := engines.StdinPipe()
	out, errOut := engines.StdoutPipe()
	if errIn != nil || errOut != nil || engines.Start() != nil {
		b.Fatal("the model servers do not start")
	}
	defer func() {
		_ = in.Close()
		_ = engines.Wait()
	}()
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	text := "endpoints:\n"
	for i := 1; i <= benchEndpoints; i++ {
		text += fmt.Sprintf("  - {address: 127.0.8.%d, port: %s}\n", i, strings.TrimSpace(port))
	}
	file := filepath.Join(b.TempDir(), "endpoints.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	admin, nats := fmt.Sprintf("127.0.0.1:%d", kittest.FreePort(b)), kittest.NATS(b)
	for b.Loop() {
		collector := exec.Command(self)
		collector.Env = append(os.Environ(), fmt.Sprintf("%s=--set\nnats.url=%s\n--set\nendpointsFile=%s\n--set\nadmin.address=%s", asCollector, nats, file, admin))
		if err := collector.Start(); err != nil {
			b.Fatal(err)
		}
		time.Sleep(benchTime)
		scrapes, failed := scrapeCounts(b, admin)
		_ = collector.Process.Signal(syscall.SIGTERM)
		_ = collector.Wait() // its usage is known now
		usage := collector.ProcessState.SysUsage().(*syscall.Rusage)
		cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		if scrapes == 0 || failed > 0 {
			b.Fatalf("%v scrapes, %v failed", scrapes, failed)
		}
		b.ReportMetric(float64(cpu.Microseconds())/scrapes, "cpu-µs/scrape")
		b.ReportMetric(cpu.Seconds()/benchTime.Seconds(), "cores")
		b.ReportMetric(scrapes/benchTime.Seconds(), "scrapes/s")
		b.ReportMetric(float64(usage.Maxrss)/1024, "MB")
	}
}

// scrapeCounts reads how many scrapes were made, and how many of them in vain.
func scrapeCounts(b *testing.B, admin string) (all, failed float64) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		series, value, _ := strings.Cut(s.Text(), " ")
		if !strings.HasPrefix(series, "pointsman_metrics_collector_scrapes_total{") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			b.Fatal(err)
		}
		all += n
		if !strings.Contains(series, `result="ok"`) {
			failed += n
		}
	}
	return all, failed
}
