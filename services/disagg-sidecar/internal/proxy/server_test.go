package proxy

import (
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
)

// Data-parallel ranks: a port for each, and the header that names one.
func TestRanks(t *testing.T) {
	base := freePair(t)
	d := newEngine(t, decodes())
	r := newRig(t, d, nil, func(c *Config) { c.Listen.Address, c.Decode.PodIP = net.JoinHostPort("127.0.0.1", base[0]), "10.0.0.9" })
	for _, tt := range []struct {
		name, header string
		status       int
	}{
		{"own", "10.0.0.9:" + base[0], 200}, {"of another host", "10.0.0.8:" + base[0], 400},
		{"of another port", "10.0.0.9:1", 400}, {"no address", "x", 400},
	} {
		if a := r.chat("", "X-Data-Parallel-Host-Port", tt.header); a.status != tt.status || tt.status == 400 && a.header.Get("X-Pointsman-Reason") != "unknown-rank" {
			t.Errorf("%s: %+v", tt.name, a)
		}
	}
	r.stop()

	// Two ranks: engines on ports one after the other are hard to come by, so it is seen
	// where the second rank's requests are sent.
	cfg := DefaultConfig()
	cfg.Listen.Address, cfg.Decode.Ranks, cfg.Decode.Address = net.JoinHostPort("127.0.0.1", base[0]), 2, "127.0.0.1:8200"
	p, err := New(cfg, r.list, r.tel)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.ranks) != 2 || p.ranks[1].endpoint.Address != "127.0.0.1:8201" {
		t.Errorf("ranks %+v", p.ranks)
	}
	x := &exchange{rank: p.ranks[0], p: p}
	if f := x.chooseRank([]string{"10.0.0.9:" + base[1]}); f != nil || x.rank != p.ranks[1] {
		t.Errorf("the second rank is not chosen: %+v", f)
	}
}

// freePair returns two ports, one after the other, that are free.
func freePair(t *testing.T) [2]string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		first := l.Addr().String()
		_ = l.Close()
		next, err := ranked(first, 1)
		if err != nil {
			continue
		}
		if l, err = net.Listen("tcp", next); err != nil {
			continue
		}
		_ = l.Close()
		_, a, _ := net.SplitHostPort(first)
		_, b, _ := net.SplitHostPort(next)
		return [2]string{a, b}
	}
	t.Fatal("no free ports")
	return [2]string{}
}

func TestSelfSigned(t *testing.T) {
	d := newEngine(t, decodes())
	r := newRig(t, d, nil, func(c *Config) { c.Listen.SelfSigned = true })
	r.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(r.client.CloseIdleConnections)
	if a := r.send("https://"+r.urls[0]+"/v1/models", "GET", nil); a.status != 200 {
		t.Errorf("%+v", a)
	}
}

// Requests that are under way when the sidecar stops come to their end.
func TestDrain(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	d := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-goOn
		decodes()(w, r)
	})
	r := newRig(t, d, nil, func(c *Config) { c.DrainDelay = conf.Duration(50 * time.Millisecond) })
	got := make(chan reply, 1)
	go func() { got <- r.chat("") }()
	<-begun
	stopped := make(chan struct{})
	go func() { r.stop(); close(stopped) }()
	kittest.Eventually(t, "it says that it is not ready", func() bool {
		ok, why := r.tel.Health.Ready()
		return !ok && strings.Contains(strings.Join(why, " "), "stopping")
	})
	kittest.Eventually(t, "nobody else gets in", func() bool {
		c, err := net.DialTimeout("tcp", r.urls[0], time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	close(goOn)
	if a := <-got; a.status != 200 || a.err != nil {
		t.Errorf("%+v", a)
	}
	<-stopped
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(c *Config){
		"listen.address":       func(c *Config) { c.Listen.Address = ":8000x" },
		"decode.address":       func(c *Config) { c.Decode.Address = "h:65535"; c.Decode.Ranks = 2 },
		"listen.selfSigned":    func(c *Config) { c.Listen.SelfSigned = true; c.Listen.TLS.CertFile = "a"; c.Listen.TLS.KeyFile = "b" },
		"decode.scheme":        func(c *Config) { c.Decode.Scheme = "ftp" },
		"decode.ranks":         func(c *Config) { c.Decode.Ranks = 0 },
		"prefill.connector":    func(c *Config) { c.Prefill.Connector = "p2p" },
		"prefill.onFailure":    func(c *Config) { c.Prefill.OnFailure = []string{"Hope"} },
		"encode.onFailure":     func(c *Config) { c.Encode.OnFailure = []string{"LocalPrefill"} },
		"decode.chunkSize":     func(c *Config) { c.Decode.ChunkSize = -1 },
		"encode.connector":     func(c *Config) { c.Encode.Connector = "x" },
		"encode.scheme":        func(c *Config) { c.Encode.Scheme = "x" },
		"encode.tls.certFile":  func(c *Config) { c.Encode.TLS.KeyFile = "x" },
		"encode.budget":        func(c *Config) { c.Encode.Budget = -1 },
		"prefill.retries":      func(c *Config) { c.Prefill.Retries = -1 },
		"allow.also":           func(c *Config) { c.Allow.Also = []string{"x"} },
		"maxRequestBytes":      func(c *Config) { c.MaxRequestBytes = 0 },
		"maxBufferedBytes":     func(c *Config) { c.MaxBufferedBytes = 1 },
		"idleConnections":      func(c *Config) { c.IdleConnections = 0 },
		"keepAlive":            func(c *Config) { c.KeepAlive = 0 },
		"prefill.timeout":      func(c *Config) { c.Prefill.Timeout = -1 },
		"decode.tls.certFile":  func(c *Config) { c.Decode.TLS.KeyFile = "x" },
		"prefill.tls.certFile": func(c *Config) { c.Prefill.TLS.KeyFile = "x" },
		"listen.tls.certFile":  func(c *Config) { c.Listen.TLS.KeyFile = "x" },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want+":") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
