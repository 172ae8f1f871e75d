package telemetry

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"go.opentelemetry.io/otel/metric"
)

// gone is the response of a scraper that has hung up.
type gone struct{ header http.Header }

func (g gone) Header() http.Header { return g.header }
func (gone) WriteHeader(int)       {}
func (gone) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
}

func TestScraperThatHangsUpIsNotLogged(t *testing.T) {
	var out bytes.Buffer
	tel, err := New("router", "", DefaultConfig(), &out)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tel.Meter.Int64Counter("pointsman_router_things_total", metric.WithDescription("Things."))
	if err != nil {
		t.Fatal(err)
	}
	c.Add(t.Context(), 1)
	tel.handler(true).ServeHTTP(gone{http.Header{}}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if out.Len() != 0 {
		t.Errorf("%d lines, such as %.200q", bytes.Count(out.Bytes(), []byte{'\n'}), out.String())
	}
	pageLog{tel.Log}.Println("error gathering metrics:", syscall.EINVAL)
	if !bytes.Contains(out.Bytes(), []byte("level=WARN")) || !bytes.Contains(out.Bytes(), []byte("error gathering metrics: invalid argument")) {
		t.Errorf("a fault of ours is logged as %q", out.String())
	}
}
