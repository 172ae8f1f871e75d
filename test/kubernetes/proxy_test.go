package kubernetes

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy is a wire to the API server that can be cut.
type proxy struct {
	listener net.Listener
	to       string
	delay    atomic.Int64 // ns that every piece of an answer takes

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
	made  int // connections so far
	wires sync.WaitGroup
}

func newProxy(t testing.TB, url string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: strings.TrimPrefix(url, "https://"), conns: make(map[net.Conn]bool)}
	p.wires.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.set(true)
		p.wires.Wait()
	})
	return p
}

func (p *proxy) url() string { return "https://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil || !p.keep(in, out) {
			_ = in.Close()
			if out != nil {
				_ = out.Close()
			}
			continue
		}
		p.wires.Go(func() {
			_, _ = io.Copy(out, in) // until either end is closed
			_, _ = out.Close(), in.Close()
		})
		p.wires.Go(func() {
			_, _ = io.Copy(in, slow{out, &p.delay})
			_, _ = out.Close(), in.Close()
		})
	}
}

// slow waits before each piece that it reads is handed on.
type slow struct {
	net.Conn
	delay *atomic.Int64
}

func (s slow) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	time.Sleep(time.Duration(s.delay.Load()))
	return n, err
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	p.made++
	for _, c := range conns {
		p.conns[c] = true
	}
	return true
}

// set cuts all connections and lets no new one through, or lets them through again.
func (p *proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	if cut {
		for c := range p.conns {
			_ = c.Close()
		}
		clear(p.conns)
	}
}
