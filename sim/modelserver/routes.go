package modelserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pointsman/pointsman/sim/page"
)

const (
	headerRequestID = "X-Request-Id"
	headerServer    = "X-Sim-Server"
)

// routes is the server's handler.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.faulty(s.strict(s.chat)))
	mux.HandleFunc("POST /v1/completions", s.faulty(s.strict(s.completions)))
	mux.HandleFunc("POST /v1/embeddings", s.faulty(s.embeddings))
	mux.HandleFunc("GET /v1/models", s.faulty(s.models))
	mux.HandleFunc("POST /v1/load_lora_adapter", s.loadAdapter)
	mux.HandleFunc("POST /v1/unload_lora_adapter", s.unloadAdapter)
	mux.HandleFunc("POST /tokenize", s.tokenize)
	mux.HandleFunc("POST /reset_prefix_cache", s.resetCache)
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("GET /health/ready", s.ready)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"version": "0.11.0+pointsman.sim"})
	})
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("POST /sim/kv/read", s.read)
	mux.HandleFunc("POST /sim/kv/room", s.room)
	mux.HandleFunc("POST /sim/ec/read", s.readMedia)
	mux.HandleFunc("POST /sim/kv/linked", s.linked)
	mux.HandleFunc("POST /sim/kv/match", s.matches)
	if s.cfg.Transfer.Connector == Mooncake {
		mux.HandleFunc("GET /query", s.query)
	}
	mux.HandleFunc("GET /sim/faults", s.showFaults)
	mux.HandleFunc("POST /sim/faults", s.changeFaults)
	mux.HandleFunc("DELETE /sim/faults", s.clearFaults)
	mux.HandleFunc("GET /sim/stats", s.showStats)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		(&apiError{http.StatusNotFound, "NotFoundError", "", fmt.Sprintf("There is no %s %s here.", r.Method, r.URL.Path)}).write(w)
	})
	return s.named(s.counted(mux))
}

// named puts the request's and the server's names on every answer.
func (s *Server) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(headerRequestID)
		if id == "" {
			id = fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
		}
		w.Header().Set(headerRequestID, id)
		w.Header().Set(headerServer, s.name())
		next.ServeHTTP(w, r)
	})
}

// requestID is the id that named gave.
func requestID(w http.ResponseWriter) string { return w.Header().Get(headerRequestID) }

type planKey struct{}

// planOf is what will go wrong with a request.
func planOf(ctx context.Context) plan {
	p, _ := ctx.Value(planKey{}).(plan)
	return p
}

// faulty lets the faults in force hit a request.
func (s *Server) faulty(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.inFlight.Add(1)
		defer s.inFlight.Add(-1)
		p := s.faults.draw()
		if p.hang || p.status != 0 {
			// Without its body read, net/http does not notice that the client has gone.
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
			if err != nil {
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		if p.hang && !p.wait(r.Context()) {
			return
		}
		if p.status != 0 {
			(&apiError{p.status, "InternalServerError", "", "The server was told to fail."}).write(w)
			return
		}
		if p.midway() || p.empty {
			r = r.WithContext(context.WithValue(r.Context(), planKey{}, p))
		}
		next(w, r)
	}
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	f := s.faults.get()
	if f.HealthStatus != 0 {
		w.WriteHeader(f.HealthStatus)
	}
}

// ready says whether the time of the start is over. Nothing else waits for it.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if time.Since(s.born) < s.cfg.StartupDuration {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	f := s.faults.get()
	if f.ScrapeDelay > 0 {
		timer := time.NewTimer(time.Duration(f.ScrapeDelay))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	if f.ScrapeStatus != 0 && f.ScrapeStatus != http.StatusOK {
		http.Error(w, "The server was told to fail.", f.ScrapeStatus)
		return
	}
	buf := s.pages.Get().(*[]byte)
	defer s.pages.Put(buf)
	*buf = s.driver.appendPage((*buf)[:0], s.page, page.Figures{Created: unixSeconds(s.born), Routes: s.counts.snapshot()})
	w.Header().Set("Content-Type", page.ContentType)
	w.Write(*buf)
}

// routeCounts counts requests as vLLM's HTTP server does. Only a large page shows them, and only then they are counted.
type routeCounts struct {
	index map[page.Route]int

	mu      sync.Mutex
	figures []page.RouteFigures
}

func newRouteCounts() *routeCounts {
	routes := page.Routes()
	c := &routeCounts{index: make(map[page.Route]int), figures: make([]page.RouteFigures, len(routes))}
	for i, r := range routes {
		c.index[r] = i
	}
	return c
}

func (c *routeCounts) snapshot() []page.RouteFigures {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]page.RouteFigures(nil), c.figures...)
}

func (c *routeCounts) observe(r *http.Request, w *countingWriter, took time.Duration) {
	i, ok := c.index[page.Route{Method: r.Method, Path: r.URL.Path}]
	if !ok {
		i = len(c.figures) - 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.figures[i].Observe(w.status, took.Seconds(), uint64(max(r.ContentLength, 0)), w.bytes)
}

// counted counts requests where that is wanted.
func (s *Server) counted(next http.Handler) http.Handler {
	if s.counts == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/sim/") {
			next.ServeHTTP(w, r)
			return
		}
		cw := &countingWriter{ResponseWriter: w, status: http.StatusOK}
		begin := time.Now()
		defer func() { s.counts.observe(r, cw, time.Since(begin)) }()
		next.ServeHTTP(cw, r)
	})
}

type countingWriter struct {
	http.ResponseWriter
	status int
	bytes  uint64
}

func (w *countingWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *countingWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.bytes += uint64(n)
	return n, err
}

// Unwrap lets http.ResponseController find Flush.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
