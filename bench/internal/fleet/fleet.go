package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Config is what the servers say.
type Config struct {
	// Servers is how many there are. REQUIRED.
	Servers int
	// Pages is how server i shows itself at its n-th scrape; see NewPages. REQUIRED.
	Pages func(i int, n uint64) []byte
	// Model is listed by every server.
	Model string
	// Answer is the body that every chat request is answered with, and Header the name of
	// the header that says by whom.
	Answer, Header string
}

// Fleet is the servers. New makes them listen and Close ends them.
type Fleet struct {
	cfg       Config
	servers   []*server
	scrapes   atomic.Uint64
	requests  atomic.Uint64
	mu        sync.Mutex
	conns     map[net.Conn]struct{}
	closed    bool
	serving   sync.WaitGroup
	addresses []string
}

type server struct {
	fleet    *Fleet
	number   int
	listener net.Listener
	models   []byte
	answer   []byte
	scrapes  atomic.Uint64
}

// New starts the servers on ports of the loopback that were free.
func New(ctx context.Context, cfg Config) (*Fleet, error) {
	if cfg.Servers < 1 || cfg.Pages == nil {
		return nil, fmt.Errorf("fleet: %d servers, pages %t", cfg.Servers, cfg.Pages != nil)
	}
	f := &Fleet{cfg: cfg, conns: make(map[net.Conn]struct{})}
	for i := range cfg.Servers {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(fmt.Errorf("model server %d: %w", i, err), f.Close())
		}
		address := l.Addr().String()
		s := &server{
			fleet: f, number: i, listener: l,
			models: response("application/json", nil, fmt.Appendf(nil, `{"object":"list","data":[{"id":%q,"object":"model"}]}`, cfg.Model)),
			answer: response("application/json", []string{cfg.Header, address}, []byte(cfg.Answer)),
		}
		f.servers, f.addresses = append(f.servers, s), append(f.addresses, address)
		f.serving.Go(s.accept)
	}
	return f, nil
}

// Addresses returns "host:port" of each server.
func (f *Fleet) Addresses() []string { return f.addresses }

// Counts returns how many metrics pages were sent and chat requests answered.
func (f *Fleet) Counts() (scrapes, requests uint64) { return f.scrapes.Load(), f.requests.Load() }

// Close ends all servers and connections.
func (f *Fleet) Close() error {
	var errs []error
	for _, s := range f.servers {
		errs = append(errs, s.listener.Close())
	}
	f.mu.Lock()
	f.closed = true
	for c := range f.conns {
		errs = append(errs, c.Close())
	}
	f.mu.Unlock()
	f.serving.Wait()
	return errors.Join(errs...)
}

func (s *server) accept() {
	for {
		c, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of file descriptors, for example
			continue
		}
		f := s.fleet
		f.mu.Lock()
		if f.closed {
			f.mu.Unlock()
			_ = c.Close()
			return
		}
		f.conns[c] = struct{}{}
		f.mu.Unlock()
		f.serving.Go(func() {
			s.serve(c)
			f.mu.Lock()
			defer f.mu.Unlock()
			if _, open := f.conns[c]; open && !f.closed {
				delete(f.conns, c)
				_ = c.Close()
			}
		})
	}
}

// serve answers one request after the other.
func (s *server) serve(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		if _, err := c.Write(s.reply(req)); err != nil {
			return
		}
		if req.Close {
			return
		}
	}
}

func (s *server) reply(req *http.Request) []byte {
	switch {
	case req.Method == http.MethodPost:
		s.fleet.requests.Add(1)
		return s.answer
	case req.URL.Path == "/metrics":
		s.fleet.scrapes.Add(1)
		return s.fleet.cfg.Pages(s.number, s.scrapes.Add(1))
	case req.URL.Path == "/v1/models":
		return s.models
	}
	return []byte("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
}

// response is a whole answer as it goes over the wire. header is a name and a value.
func response(contentType string, header []string, body []byte) []byte {
	b := []byte("HTTP/1.1 200 OK\r\nContent-Type: " + contentType + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n")
	if len(header) == 2 {
		b = append(b, header[0]+": "+header[1]+"\r\n"...)
	}
	return append(append(b, "\r\n"...), body...)
}
