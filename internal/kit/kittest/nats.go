package kittest

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// NATS starts a NATS server on a free loopback port and returns its URL, such
// as "nats://127.0.0.1:41234". It is stopped when the test ends.
func NATS(t testing.TB) string {
	t.Helper()
	return StartNATS(t, 0).URL
}

// NATSHandle is a NATS server that a test may stop and start again.
type NATSHandle struct {
	// URL is the same before and after a restart.
	URL string

	t      testing.TB
	port   int
	dir    string
	tweaks []func(*server.Options)
	server *server.Server
}

// StartNATS starts a NATS server on the loopback port, 0 for a free one. Tweaks
// change the server's options before every start: users and permissions, payload
// limits, TLS. It is stopped when the test ends.
func StartNATS(t testing.TB, port int, tweaks ...func(*server.Options)) *NATSHandle {
	t.Helper()
	h := &NATSHandle{t: t, port: port, dir: t.TempDir(), tweaks: tweaks}
	if h.port == 0 {
		h.port = FreePort(t) // nobody takes it while the server is stopped
	}
	h.start()
	h.URL = fmt.Sprintf("nats://127.0.0.1:%d", h.port)
	t.Cleanup(h.Stop)
	return h
}

// Stop ends the server and cuts every connection, as a crash would. It does
// nothing if the server is stopped already.
func (h *NATSHandle) Stop() {
	if h.server == nil {
		return
	}
	h.server.Shutdown()
	h.server.WaitForShutdown()
	h.server = nil
}

// Restart starts the server again on the same port, stopping it first if it
// still runs.
func (h *NATSHandle) Restart() {
	h.t.Helper()
	h.Stop()
	h.start()
}

// Clients returns how many connections the server has now; 0 when stopped.
func (h *NATSHandle) Clients() int {
	if h.server == nil {
		return 0
	}
	return h.server.NumClients()
}

func (h *NATSHandle) start() {
	h.t.Helper()
	opts := &server.Options{
		Host:                  "127.0.0.1",
		Port:                  h.port,
		StoreDir:              h.dir,
		NoLog:                 true,
		NoSigs:                true,
		DisableShortFirstPing: true,
	}
	for _, tweak := range h.tweaks {
		tweak(opts)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		h.t.Fatalf("prepare the NATS server: %v", err)
	}
	// Start returns once the accept loops run in the background.
	s.Start()
	if !s.ReadyForConnections(patience) {
		s.Shutdown()
		s.WaitForShutdown()
		h.t.Fatalf("the NATS server on port %d accepts no connection after %v", h.port, patience)
	}
	h.server = s
}
