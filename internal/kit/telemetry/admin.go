package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pointsman/pointsman/internal/kit/run"
)

// adminKey is the configuration key of the admin server's address.
const adminKey = "admin.address"

// adminGrace is how long open admin requests may go on after the end.
const adminGrace = 2 * time.Second

// Part returns the part that serves the admin pages and exports to the OTLP collector. Add it first, so that it stops last.
// The bound address is announced on stdout as listener "admin".
func (t *Telemetry) Part(stdout io.Writer) run.Part {
	return func(ctx context.Context, ready func()) error {
		ctx, cancel := context.WithCancel(ctx) // the one that fails ends the other
		defer cancel()
		serve, err := t.listen(ctx, stdout)
		if err != nil {
			return err
		}
		send, err := t.openExport(ctx)
		if err != nil {
			cancel()
			return errors.Join(err, serve(ctx)) // it closes the listener
		}
		errs := make(chan error, 2)
		for _, f := range []func(context.Context) error{serve, send} {
			go func() {
				defer cancel()
				errs <- f(ctx)
			}()
		}
		ready()
		return errors.Join(<-errs, <-errs)
	}
}

func (t *Telemetry) openExport(ctx context.Context) (func(context.Context) error, error) {
	if t.export == nil {
		return wait, nil
	}
	return t.export.open(ctx, t.tracers)
}

// wait stands for something that is off.
func wait(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// listen binds the admin server and returns the function that serves until its context ends.
func (t *Telemetry) listen(ctx context.Context, stdout io.Writer) (func(context.Context) error, error) {
	if t.cfg.Admin.Address == "" {
		return wait, nil
	}
	l, err := run.Listen(ctx, adminKey, t.cfg.Admin.Address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{
		Handler:           t.handler(isLoopback(l.Addr())),
		ReadHeaderTimeout: 5 * time.Second,
		ErrorLog:          slog.NewLogLogger(t.Log.Handler(), slog.LevelDebug),
	}
	shutdown := run.Shutdown(server)
	run.Announce(ctx, stdout, t.service, "admin", run.Address(l))
	return func(ctx context.Context) error {
		var failure error
		served := make(chan struct{})
		go func() {
			defer close(served)
			failure = server.Serve(l)
		}()
		select {
		case <-served:
			return fmt.Errorf("%s: serve on %s: %w", adminKey, run.Address(l), failure)
		case <-ctx.Done():
		}
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminGrace)
		defer cancel()
		if shutdown(grace) != nil {
			_ = server.Close() // nothing is left to be told
		}
		<-served
		return nil
	}, nil
}

// handler builds the admin pages.
func (t *Telemetry) handler(loopback bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", t.mux)
	mux.HandleFunc("GET /{$}", t.serveIndex)
	mux.Handle("GET /metrics", promhttp.HandlerFor(t, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, // one bad series must not hide the others
		ErrorLog:      pageLog{t.Log},
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", t.serveReady)
	mux.Handle("GET /buildinfo", t.build)
	mux.HandleFunc("GET /instruments", t.showInstruments)

	on := loopback
	if t.cfg.Admin.Pprof != nil {
		on = *t.cfg.Admin.Pprof
	}
	if !on {
		mux.HandleFunc("/debug/pprof/", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "profiles are off on an address that is not loopback; turn them on with --set admin.pprof=true", http.StatusNotFound)
		})
		return mux
	}
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// pageLog takes what promhttp complains of. That the reader has gone is said for every family left to send, and is
// no fault of ours.
type pageLog struct{ log *slog.Logger }

// Println logs one complaint.
func (l pageLog) Println(v ...any) {
	level := slog.LevelWarn
	for _, part := range v {
		if err, ok := part.(error); ok {
			if _, gone := errors.AsType[*net.OpError](err); gone {
				level = slog.LevelDebug
			}
		}
	}
	l.log.Log(context.Background(), level, "metrics page", "error", strings.TrimSpace(fmt.Sprintln(v...)))
}

func (t *Telemetry) serveReady(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	ready, told := t.Health.Ready()
	if ready {
		told = []string{"ready"}
	} else {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Fprintln(w, strings.Join(append(told, t.Health.Notes()...), "\n"))
}

func (t *Telemetry) serveIndex(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "%s %s\n\n", t.service, t.build.Version)
	for _, page := range []string{"/metrics", "/healthz", "/readyz", "/buildinfo", "/instruments", "/debug/pprof/"} {
		fmt.Fprintln(w, page)
	}
	for _, page := range t.patterns {
		fmt.Fprintln(w, page)
	}
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
