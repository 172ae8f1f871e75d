package httpproxy

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// Endpoints may speak TLS; their certificates are checked unless told otherwise.
func TestEndpointTLS(t *testing.T) {
	engine := httptest.NewUnstartedServer(answer200("x"))
	engine.Config.ErrorLog = log.New(io.Discard, "", 0)
	engine.StartTLS()
	defer engine.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: engine.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(engine.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		tls    TLSConfig
		status int
	}{
		{"unknown authority", TLSConfig{}, 502},
		{"known authority", TLSConfig{CAFile: ca}, 200},
		{"not checked", TLSConfig{InsecureSkipVerify: true}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil, with(func(cfg *Config) { cfg.EndpointTLS = c.tls }))
			table, err := roster.NewTable([]roster.Endpoint{{ID: "e0", Host: host, Port: uint16(n), Scheme: "https"}})
			if err != nil {
				t.Fatal(err)
			}
			r.roster.SetTable(table)
			if got := r.chat(); got.status != c.status {
				t.Error(got)
			}
		})
	}
}
