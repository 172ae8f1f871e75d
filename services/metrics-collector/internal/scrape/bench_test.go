package scrape

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/engine"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

type nowhere struct{}

func (nowhere) Observed(fleet.ID, fleet.Reading) {}
func (nowhere) Learned(fleet.ID, fleet.Details)  {}

// canned serves the same answer to every request with as little work as possible, so
// that a benchmark shows the scraper.
func canned(b *testing.B, page string) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	answer := []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n\r\n%s", len(page), page))
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for {
					request, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, request.Body)
					if _, err := conn.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// BenchmarkScrape is one scrape over loopback, the server's share included.
func BenchmarkScrape(b *testing.B) {
	filler := "vllm:e2e_request_latency_seconds_bucket{engine=\"0\",le=\"0.3\",model_name=\"meta-llama/Llama-3.1-8B\"} 4.0\n"
	for _, size := range []int{0, 58_000} {
		b.Run(fmt.Sprintf("page_%d", size), func(b *testing.B) {
			url := canned(b, strings.Repeat(filler, size/len(filler))+goodPage)
			host, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
			var n uint16
			if _, err := fmt.Sscan(port, &n); err != nil {
				b.Fatal(err)
			}
			source := fleet.Source{Scheme: "http", Port: n, Path: "/metrics"}
			s, err := New(DefaultConfig(), engine.NewCatalog(), nowhere{}, slog.New(slog.DiscardHandler), telemetry.Discard().Meter)
			if err != nil {
				b.Fatal(err)
			}
			e, err := s.newEndpoint(Assignment{"e", &fleet.Target{Host: host, Port: n, Scheme: "http", Metrics: source, ModelList: source}})
			if err != nil {
				b.Fatal(err)
			}
			defer e.page.close()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.scrape(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
