package envoy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pointsman/pointsman/sim/modelserver"
)

// headerDo tells a server what to do with a request; without it, the model server
// behind it answers.
const headerDo = "X-Test-Do"

// seen is what a server got.
type seen struct {
	Server  string      `json:"server"`
	Method  string      `json:"method"`
	Path    string      `json:"path"`
	Digest  string      `json:"digest"` // of the body, SHA-256
	Size    int         `json:"size"`
	Length  int64       `json:"length"` // Content-Length; -1: none
	Headers http.Header `json:"headers"`
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// server stands before a simulated model server: it tells clients byte for byte what
// came, answers in ways that model servers do not, and can pretend to any load.
type server struct {
	address string
	sim     *modelserver.Server
	proxy   *httputil.ReverseProxy
	script  map[string]http.HandlerFunc // by what is to be done

	mu       sync.Mutex
	http     *http.Server
	page     string // of metrics; empty: the model server's
	requests map[string]int
	asked    []http.Header // of requests that the model server has answered
}

// servers are those of one cluster.
type servers struct {
	t    testing.TB
	all  []*server
	next chan struct{} // lets a stepping answer go on
}

// at returns the server with that address, nil if there is none.
func (s *servers) at(address string) *server {
	for _, n := range s.all {
		if n.address == address {
			return n
		}
	}
	return nil
}

// front is a cluster's Options.Address.
func (s *servers) front(sim *modelserver.Server) string {
	for _, known := range s.all {
		if known.sim == sim {
			return known.address
		}
	}
	target, err := url.Parse(sim.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	n := &server{sim: sim, proxy: httputil.NewSingleHostReverseProxy(target), requests: make(map[string]int)}
	n.proxy.FlushInterval = -1
	n.script = map[string]http.HandlerFunc{"echo": n.echo, "slow": n.slow, "reset": n.reset, "half": n.half, "raw": n.raw, "early": n.early, "step": n.step(s), "line": n.line}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	n.address = l.Addr().String()
	n.serve(l)
	s.t.Cleanup(n.stop)
	s.all = append(s.all, n)
	return n.address
}

func (s *server) serve(l net.Listener) {
	h := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	s.mu.Lock()
	s.http = h
	s.mu.Unlock()
	go func() { _ = h.Serve(l) }()
}

// stop closes everything: connections are refused from now on.
func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.http.Close()
}

// again takes the address again.
func (s *server) again(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	s.serve(l)
}

// pretend makes the server tell this load, running these adapters.
func (s *server) pretend(waiting int, kv float64, adapters string) {
	page := fmt.Sprintf("# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=\"m\"} %d\n"+
		"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\"} 0\n"+
		"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{model_name=\"m\"} %g\n", waiting, kv)
	if adapters != "" {
		page += fmt.Sprintf("# TYPE vllm:lora_requests_info gauge\nvllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"%s\",waiting_lora_adapters=\"\"} %d\n", adapters, time.Now().Unix())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.page = page
}

func (s *server) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[what]++
}

func (s *server) counted(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[what]
}

// ServeHTTP does what it is told.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	page := s.page
	s.mu.Unlock()
	w.Header().Set("X-Test-Server", s.address)
	do := r.Header.Get(headerDo)
	switch h := s.script[do]; {
	case r.URL.Path == "/metrics" && page != "":
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, page)
	case h != nil:
		s.count(do)
		h(w, r)
	default:
		if r.Method == http.MethodPost {
			s.mu.Lock()
			s.asked = append(s.asked, r.Header.Clone())
			s.mu.Unlock()
			// Whole: a model server may begin to answer before it has seen the end of the body,
			// and net/http then reads the rest here, in the middle of its being passed on.
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		s.proxy.ServeHTTP(w, r)
	}
}

// heard returns the headers of the requests that the model server has been asked to answer.
func (s *server) heard() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]http.Header(nil), s.asked...)
}

// read reads the request.
func (s *server) read(w http.ResponseWriter, r *http.Request) (seen, bool) {
	h := sha256.New()
	n, err := io.Copy(h, r.Body)
	if err != nil {
		s.count("aborted")
		panic(http.ErrAbortHandler)
	}
	return seen{Server: s.address, Method: r.Method, Path: r.URL.RequestURI(), Digest: hex.EncodeToString(h.Sum(nil)), Size: int(n), Length: r.ContentLength, Headers: r.Header}, true
}

// echo tells what came.
func (s *server) echo(w http.ResponseWriter, r *http.Request) {
	got, _ := s.read(w, r)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(got)
}

// raw answers with the status, type and body that the headers ask for.
func (s *server) raw(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	for _, name := range []string{"Content-Type", "Content-Encoding"} {
		if v := r.Header.Get("X-Test-" + name); v != "" {
			w.Header().Set(name, v)
		}
	}
	status, err := strconv.Atoi(r.Header.Get("X-Test-Status"))
	if err != nil {
		status = http.StatusOK
	}
	size, _ := strconv.Atoi(r.Header.Get("X-Test-Size"))
	if status != http.StatusNoContent {
		w.Header().Set("Content-Length", strconv.Itoa(size))
	}
	w.WriteHeader(status)
	_, _ = w.Write(filler(size))
}

// steps is how many events a stepping answer has.
const steps = 5

// step streams events, each when the client has got the one before: see servers.next.
func (s *server) step(all *servers) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range steps {
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"%d\"}}]}\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				s.count("aborted")
				return
			case <-all.next:
			}
		}
		_, _ = io.WriteString(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}}\n\ndata: [DONE]\n\n")
	}
}

// line streams one event of the size that the headers ask for.
func (s *server) line(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	size, _ := strconv.Atoi(r.Header.Get("X-Test-Size"))
	_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"%s\"}}]}\n\ndata: [DONE]\n\n", filler(size))
}

// slow streams events until the client goes, for 20 s at most.
func (s *server) slow(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range 1000 {
		if _, err := fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"%d\"}}]}\n\n", i); err != nil {
			break
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			s.count("aborted")
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// reset ends the connection without an answer.
func (s *server) reset(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}

// half ends the connection in the middle of an answer.
func (s *server) half(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// early answers before it has read the request.
func (s *server) early(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "too much", http.StatusRequestEntityTooLarge)
}

// filler is n bytes of text without much repetition, the same each time.
func filler(n int) []byte {
	b := make([]byte, n)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = 'a' + byte(x%26)
	}
	return b
}
