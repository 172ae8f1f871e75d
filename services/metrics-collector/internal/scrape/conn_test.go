package scrape

import (
	"net"
	"net/http"
	"sync/atomic"
)

func countNew(n *atomic.Int32) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			n.Add(1)
		}
	}
}

func countClosed(n *atomic.Int32) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			n.Add(1)
		}
	}
}
