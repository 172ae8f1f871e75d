package kittest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports are given out from below those that systems take for outgoing connections and
// for whoever listens on port 0: 32768 and above on Linux, 49152 elsewhere.
const (
	firstPort = 15000
	ports     = 15000
)

// FreePort returns a loopback TCP port that nobody listens on, and that is given to no
// other test, of other processes neither, before this one ends. Whoever listens on it
// may stop and listen again. Prefer port 0 where the address need not be known before.
func FreePort(t testing.TB) int {
	t.Helper()
	for range ports {
		port := firstPort + rand.IntN(ports)
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		claim, err := net.ListenPacket("udp", address) // no other test can claim it now, and TCP is as free as before
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			_ = claim.Close()
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = claim.Close() })
		return port
	}
	t.Fatalf("no port from %d to %d is free", firstPort, firstPort+ports-1)
	return 0
}
