package kittest

import (
	"net"
	"testing"
)

// FreePort returns a loopback TCP port that was free a moment ago. Another
// process may take it before the caller does: prefer listening on port 0 where
// the address need not be known beforehand.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
