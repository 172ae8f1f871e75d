package modelserver

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// gate is a listener that can be shut and opened again at the same address. While it is shut, connections are refused,
// as by a process that is not there.
type gate struct {
	address string

	mu     sync.Mutex
	inner  net.Listener  // nil while shut
	turned chan struct{} // closed when it is shut, opened or closed
	closed bool
}

// newGate takes the address, and leaves it again at once if shut.
func newGate(address string, shut bool) (*gate, error) {
	inner, err := listen(address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	g := &gate{address: inner.Addr().String(), inner: inner, turned: make(chan struct{})}
	if shut {
		g.shut()
	}
	return g, nil
}

func listen(address string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(context.Background(), "tcp", address)
}

func (g *gate) turn() {
	close(g.turned)
	g.turned = make(chan struct{})
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inner != nil {
		g.inner.Close()
		g.inner = nil
		g.turn()
	}
}

func (g *gate) open() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inner != nil || g.closed {
		return nil
	}
	inner, err := listen(g.address)
	if err != nil {
		return fmt.Errorf("listen on %s again: %w", g.address, err)
	}
	g.inner = inner
	g.turn()
	return nil
}

// Accept waits for a connection, and for the gate to be open.
func (g *gate) Accept() (net.Conn, error) {
	for {
		g.mu.Lock()
		inner, turned, closed := g.inner, g.turned, g.closed
		g.mu.Unlock()
		if closed {
			return nil, net.ErrClosed
		}
		if inner == nil {
			<-turned
			continue
		}
		conn, err := inner.Accept()
		if err == nil {
			return conn, nil
		}
		g.mu.Lock()
		same := g.inner == inner && !g.closed
		g.mu.Unlock()
		if same { // not shut or closed meanwhile
			return nil, err
		}
	}
}

// Close closes the gate for good.
func (g *gate) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	g.turn()
	if g.inner != nil {
		return g.inner.Close()
	}
	return nil
}

// Addr is the address, also while the gate is shut.
func (g *gate) Addr() net.Addr { return gateAddr(g.address) }

type gateAddr string

func (gateAddr) Network() string  { return "tcp" }
func (a gateAddr) String() string { return string(a) }
