package scrape

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

func TestB070_port_of_the_page_and_one_line_per_failing(t *testing.T) {
	page := serve(t, writePage)
	api := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not here", http.StatusNotFound) })
	target := at(t, api.URL)
	target.Metrics.Port = at(t, page.URL).Port
	b := newBench(t, quick())
	b.assign(target)
	b.waitScrapes("ok", 1)

	b.assign(at(t, api.URL)) // its own port is the wrong one
	b.waitScrapes("status", 10)
	if n := b.logs.count("cannot be scraped"); n != 1 {
		t.Errorf("%d lines for one endpoint that fails all the time, want 1", n)
	}
}

func TestB071_slow_page_has_one_scrape_in_flight(t *testing.T) {
	const slow = 60 * time.Millisecond
	var inFlight, most, started atomic.Int32
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		started.Add(1)
		if n := inFlight.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer inFlight.Add(-1)
		time.Sleep(slow)
		writePage(w, r)
	})
	b := newBench(t, quick())
	b.assign(at(t, server.URL))
	began := time.Now()
	b.waitScrapes("ok", 4)
	elapsed := time.Since(began)
	if most.Load() != 1 {
		t.Errorf("%d scrapes in flight at once, want 1", most.Load())
	}
	// At a fifth of the time there may be one scrape every 300 ms, less the jitter.
	if n, limit := int(started.Load()), int(elapsed/(270*time.Millisecond))+2; n > limit {
		t.Errorf("%d scrapes of a page of %v in %v, want at most %d", n, slow, elapsed, limit)
	}
	if r, _ := b.reading("0"); time.Since(r.At) < slow {
		t.Error("the figures' age does not count from the beginning of the scrape")
	}
}

func TestB083_TLS(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	clientCert, clientKey := ca.issue("collector")
	strangerCert, strangerKey := stranger.issue("collector")
	secure := func(config *tls.Config) string {
		config.Certificates = []tls.Certificate{ca.pair("engine.example")}
		server := httptest.NewUnstartedServer(http.HandlerFunc(writePage))
		server.TLS = config
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		return server.URL
	}
	one := secure(&tls.Config{})
	mutual := secure(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.pool()})
	plain := serve(t, writePage).URL
	for name, c := range map[string]struct {
		url  string
		tls  fleet.TLS
		want string
	}{
		"unknown authority":           {one, fleet.TLS{}, "tls"},
		"not verified, as asked":      {one, fleet.TLS{InsecureSkipVerify: true}, "ok"},
		"private authority":           {one, fleet.TLS{CAFile: ca.file}, "ok"},
		"other authority":             {one, fleet.TLS{CAFile: stranger.file}, "tls"},
		"name in the certificate":     {one, fleet.TLS{CAFile: ca.file, ServerName: "engine.example"}, "ok"},
		"other name":                  {one, fleet.TLS{CAFile: ca.file, ServerName: "other.example"}, "tls"},
		"authority not there":         {one, fleet.TLS{CAFile: filepath.Join(t.TempDir(), "none.pem")}, "credentials"},
		"client certificate":          {mutual, fleet.TLS{CAFile: ca.file, CertFile: clientCert, KeyFile: clientKey}, "ok"},
		"client certificate not ours": {mutual, fleet.TLS{CAFile: ca.file, CertFile: strangerCert, KeyFile: strangerKey}, "tls"},
		"no client certificate":       {mutual, fleet.TLS{CAFile: ca.file}, "tls"},
		"server without TLS":          {strings.Replace(plain, "http:", "https:", 1), fleet.TLS{CAFile: ca.file}, "tls"},
		"TLS not asked for":           {strings.Replace(one, "https:", "http:", 1), fleet.TLS{}, "status"},
		"nobody there":                {"https://127.0.0.1:1", fleet.TLS{CAFile: ca.file}, "connect"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := at(t, c.url)
			target.Metrics.TLS = c.tls
			b := newBench(t, quick())
			b.assign(target)
			b.waitScrapes(c.want, 1)
			if _, n := b.reading("0"); (n > 0) != (c.want == "ok") {
				t.Errorf("%d readings although scrapes end with %s", n, c.want)
			}
		})
	}
}

func TestB083_certificates_are_rotated(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	certFile, keyFile := stranger.issue("collector")
	server := httptest.NewUnstartedServer(http.HandlerFunc(writePage))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.pair("engine")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.pool()}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	target := at(t, server.URL)
	target.Metrics.TLS = fleet.TLS{CAFile: ca.file, CertFile: certFile, KeyFile: keyFile}
	b := newBench(t, quick())
	b.assign(target)
	b.waitScrapes("tls", 1)
	ca.issueTo("collector", certFile, keyFile)
	b.waitScrapes("ok", 1)
}

func TestB083_token(t *testing.T) {
	const good = "Bearer s3cret"
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != good {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		writePage(w, r)
	})
	file := filepath.Join(t.TempDir(), "token")
	for name, c := range map[string]struct {
		source fleet.Source
		text   string
		want   string
	}{
		"none":         {fleet.Source{}, "", "status"},
		"given":        {fleet.Source{Token: "s3cret"}, "", "ok"},
		"wrong":        {fleet.Source{Token: "guess"}, "", "status"},
		"file missing": {fleet.Source{TokenFile: file + ".missing"}, "", "credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			target := at(t, server.URL)
			target.Metrics.Token, target.Metrics.TokenFile = c.source.Token, c.source.TokenFile
			b := newBench(t, quick())
			b.assign(target)
			b.waitScrapes(c.want, 1)
			if b.logs.count("s3cret")+b.logs.count("guess") != 0 {
				t.Error("the token is in the log")
			}
		})
	}
	t.Run("file changes", func(t *testing.T) {
		if err := os.WriteFile(file, []byte("old\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		target := at(t, server.URL)
		target.Metrics.TokenFile = file
		b := newBench(t, quick())
		b.assign(target)
		b.waitScrapes("status", 1)
		if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.waitScrapes("ok", 1)
	})
}

func TestB084_late_pages_count_and_wrong_paths_leave_figures_old(t *testing.T) {
	var wrong atomic.Bool
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if wrong.Load() {
			http.NotFound(w, r)
			return
		}
		time.Sleep(100 * time.Millisecond)
		writePage(w, r)
	})
	cfg := quick()
	cfg.MaxShare = 1
	b := newBench(t, cfg)
	b.assign(at(t, server.URL))
	b.waitScrapes("ok", 2) // each 20 intervals late
	wrong.Store(true)
	b.waitScrapes("status", 1)
	last, n := b.reading("0")
	b.waitScrapes("status", 3)
	if r, m := b.reading("0"); m != n || !r.At.Equal(last.At) || r.Waiting != 4 {
		t.Errorf("reading %+v after failures, want the old one as it was", r)
	}
}

func TestHungEndpointsDoNotHoldUpOthers(t *testing.T) {
	hung := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	good := serve(t, writePage)
	cfg := quick()
	cfg.Timeout = conf.Duration(10 * time.Second)
	b := newBench(t, cfg)
	var targets []*fleet.Target
	for range 50 {
		targets = append(targets, at(t, hung.URL))
	}
	targets = append(targets, at(t, good.URL))
	b.assign(targets...)
	kittest.Eventually(t, "the good one is scraped while all others hang", func() bool { _, n := b.reading("50"); return n >= 5 })
	b.assign()
}
