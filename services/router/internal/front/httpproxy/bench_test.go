package httpproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// fixed decides for one endpoint.
type fixed struct{ e *roster.Endpoint }

func (f fixed) Decide(_ context.Context, q *route.Request) *route.Decision {
	if q.Prompt != nil {
		q.Prompt.Blocks(64, 256)
	}
	return &route.Decision{Request: q, Endpoint: f.e, Reservation: new(reservation)}
}
func (fixed) Failed(roster.ID, string) {}
func (fixed) Succeeded(roster.ID)      {}

// BenchmarkProxy compares chats through the proxy with chats sent to the engine itself;
// client, proxy and engine share the process.
func BenchmarkProxy(b *testing.B) {
	answer := []byte(`{"id":"x","choices":[{"message":{"role":"assistant","content":"hello"}}],"usage":{"prompt_tokens":11,"completion_tokens":100}}`)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	}))
	defer engine.Close()
	host, port, _ := net.SplitHostPort(engine.Listener.Addr().String())
	n, _ := strconv.ParseUint(port, 10, 16)
	table, err := roster.NewTable([]roster.Endpoint{{ID: "e", Host: host, Port: uint16(n)}})
	if err != nil {
		b.Fatal(err)
	}
	f := fixed{&table.Endpoints[0]}
	p, err := New(f, nil, f, telemetry.Discard(), DefaultConfig())
	if err != nil {
		b.Fatal(err)
	}
	defer p.transport.CloseIdleConnections()
	front := httptest.NewServer(p)
	defer front.Close()
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}}
	defer c.CloseIdleConnections()
	for _, size := range []int{1 << 10, 8 << 10, 64 << 10} {
		body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat(`the quick brown fox jumps over the lazy dog.\n`, size/46) + `"}]}`)
		for _, to := range []struct{ name, url string }{{"direct", engine.URL}, {"proxied", front.URL}} {
			b.Run(fmt.Sprintf("%dKB/%s", size>>10, to.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					resp, err := c.Post(to.url+"/v1/chat/completions", "application/json", bytes.NewReader(body))
					if err != nil {
						b.Fatal(err)
					}
					if got, err := io.ReadAll(resp.Body); err != nil || len(got) != len(answer) {
						b.Fatal(err)
					}
					resp.Body.Close()
				}
			})
		}
	}
}
