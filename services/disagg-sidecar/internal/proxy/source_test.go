package proxy

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/disagg"
)

// pulled is what a leg is told of whom to pull from.
type pulled struct {
	ID   string `json:"kv_request_id"`
	Host string `json:"remote_host"`
	Port int    `json:"remote_port"`
}

func pulledOf(t *testing.T, body string) *pulled {
	t.Helper()
	var b struct {
		KV struct {
			Source *pulled `json:"remote_kv_source"`
		} `json:"kv_transfer_params"`
	}
	if err := json.Unmarshal([]byte(body), &b); err != nil {
		t.Fatal(err)
	}
	return b.KV.Source
}

// F10, F11, F13: what becomes of the header that names who has more of the prompt cached.
// It never reaches an engine, and is never a reason to fail.
func TestF10F11F13Source(t *testing.T) {
	const name = "X-Kv-Cache-Source-Host-Port"
	p := newEngine(t, answers(200, "application/json", `{"kv_transfer_params":{"a":1}}`))
	own := newEngine(t, nil)
	_, port, _ := net.SplitHostPort(own.address)
	offloading, nixl := string(disagg.Offloading), string(disagg.NIXL)
	for _, tt := range []struct {
		id, connector string
		pull          bool
		headers       []string
		prefill       bool // somebody else does
		want          string
	}{
		{"F10 nobody prefills elsewhere", offloading, false, []string{name, p.address}, false, sourceUsed},
		{"F10 another rank of this pod", offloading, false, []string{name, "127.0.0.1:" + next(t, port)}, false, sourceUsed},
		{"F10 somebody prefills", offloading, false, []string{name, "127.0.0.1:" + port}, true, sourceUsed},
		{"F10 the one who prefills", offloading, false, []string{name, p.address}, true, sourceSelf},
		{"F10 this rank", offloading, false, []string{name, "127.0.0.1:" + port}, false, sourceSelf},
		{"F11 no port", offloading, false, []string{name, "not-a-host-port"}, false, sourceMalformed},
		{"F11 empty host", offloading, false, []string{name, ":8000"}, false, sourceMalformed},
		{"F11 a URL", offloading, false, []string{name, "http://10.0.0.1:8000"}, true, sourceMalformed},
		{"F11 empty", offloading, false, []string{name, ""}, false, sourceMalformed},
		{"F11 twice", offloading, false, []string{name, p.address, name, p.address}, false, sourceMalformed},
		{"B214 not of the pool", offloading, false, []string{name, "169.254.169.254:80"}, false, sourceDenied},
		{"B214 another port of the pool's host", offloading, false, []string{name, "127.0.0.1:1"}, true, sourceDenied},
		{"compressed", offloading, false, []string{name, p.address, "Content-Encoding", "gzip"}, false, sourceUnreadable},
		{"F13 nixlv2 without the flag", nixl, false, []string{name, p.address}, false, sourceUnsupported},
		{"F13 nixlv2 without the flag, somebody prefills", nixl, false, []string{name, "127.0.0.1:" + port}, true, sourceUnsupported},
		{"F13 nixlv2 with the flag", nixl, true, []string{name, p.address}, false, sourceUsed},
		{"F13 nixlv2 with the flag, somebody prefills", nixl, true, []string{name, "127.0.0.1:" + port}, true, sourceUsed},
		{"F13 sglang", string(disagg.SGLang), false, []string{name, p.address}, false, sourceUnsupported},
		{"F13 shared-storage", string(disagg.SharedStorage), false, []string{name, p.address}, true, sourceUnsupported},
		{"F13 mooncake", string(disagg.Mooncake), false, []string{name, p.address}, false, sourceUnsupported},
	} {
		t.Run(tt.id, func(t *testing.T) {
			d := newEngine(t, decodes())
			r := newRig(t, d, []*engine{p}, func(c *Config) {
				c.Prefill.Connector, c.Prefill.P2P.Pull = tt.connector, tt.pull
				c.Listen.Address, c.Decode.PodIP = own.address, "127.0.0.1"
				c.Allow.Also = []string{own.address, "127.0.0.1:" + next(t, port)}
			})
			n := len(p.requests())
			prefill := ""
			if tt.prefill {
				prefill = p.address
			}
			if a := r.chat(prefill, tt.headers...); a.status != 200 {
				t.Fatalf("%+v", a)
			}
			if r.value("cache_sources_total", "reason", tt.want) != 1 {
				t.Errorf("not counted as %s", tt.want)
			}
			told := d.requests()[0]
			if tt.prefill {
				told = p.requests()[n]
			}
			for _, g := range append(d.requests(), p.requests()[n:]...) {
				if _, ok := g.header[name]; ok {
					t.Error("the header reaches an engine")
				}
			}
			if tt.id == "compressed" {
				return // nobody reads it
			}
			got := pulledOf(t, told.body)
			if (got != nil) != (tt.want == sourceUsed) {
				t.Fatalf("%s: told %s", tt.want, told.body)
			}
			if got != nil && (got.Host != "127.0.0.1" || got.Port != disagg.DefaultP2PPort || len(got.ID) != 36) {
				t.Errorf("%+v", got)
			}
			if got == nil && !tt.prefill && told.body != client {
				t.Errorf("the body has become %s", told.body)
			}
			if tt.prefill && strings.Contains(d.requests()[0].body, "remote_kv_source") {
				t.Errorf("who decodes is told too: %s", d.requests()[0].body)
			}
		})
	}
}

// next returns the next port.
func next(t *testing.T, port string) string {
	t.Helper()
	address, err := ranked("h:"+port, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ = net.SplitHostPort(address)
	return port
}

// F7, F10: with ranks the port follows from the endpoint's, and what a client says of it
// itself is gone. Each of several answers would pull, so that none does.
func TestF7SourceOfARank(t *testing.T) {
	d := newEngine(t, decodes())
	r := newRig(t, d, nil, func(c *Config) {
		c.Prefill.Connector, c.Prefill.P2P.Port = string(disagg.Offloading), 7000
		c.Allow.Also = []string{"10.0.0.9:8002"}
		c.Listen.Address, c.Decode.Ranks = "127.0.0.1:0", 1
	})
	body := `{"messages":[],"n":1,"kv_transfer_params":{"remote_host":"10.0.0.66"}}`
	if a := r.do("POST", "/v1/chat/completions", body, "X-Kv-Cache-Source-Host-Port", "10.0.0.9:8002", "Content-Digest", "sha-256=:x:"); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	g := d.requests()[0]
	if s := pulledOf(t, g.body); s == nil || s.Host != "10.0.0.9" || s.Port != 7000 || strings.Contains(g.body, "10.0.0.66") || g.header.Get("Content-Digest") != "" {
		t.Errorf("%s", g.body)
	}
	if a := r.do("POST", "/v1/chat/completions", `{"n":2}`, "X-Kv-Cache-Source-Host-Port", "10.0.0.9:8002"); a.status != 200 || d.requests()[1].body != `{"n":2}` || r.value("cache_sources_total", "reason", sourceSeveral) != 1 {
		t.Errorf("two answers: %+v: %s", a, d.requests()[1].body)
	}
	if a := r.do("POST", "/v1/chat/completions", `[`, "X-Kv-Cache-Source-Host-Port", "10.0.0.9:8002"); a.status != 200 || d.requests()[2].body != `[` || r.value("cache_sources_total", "reason", sourceUnreadable) != 1 {
		t.Errorf("no JSON: %+v", a)
	}
	p := &Proxy{cfg: DefaultConfig()}
	p.cfg.Listen.Address, p.cfg.Decode.Ranks = ":8000", 4
	if got := string(p.p2p().Pull("10.0.0.9:8002")); !strings.Contains(got, `"remote_port":7779`) {
		t.Errorf("F7: %s", got)
	}
}

// The engines that mooncake hands over between are named by a server beside the one that
// prefills; one that does not tell is a failure of its own.
func TestMooncake(t *testing.T) {
	p, d := newEngine(t, answers(200, "application/json", `{}`)), newEngine(t, decodes())
	boot := newEngine(t, answers(200, "application/json", `{"0":{"engine_id":"e"}}`))
	_, port, _ := net.SplitHostPort(boot.address)
	r := newRig(t, d, []*engine{p}, func(c *Config) {
		n, err := net.LookupPort("tcp", port)
		if err != nil {
			t.Fatal(err)
		}
		c.Prefill.Connector, c.Prefill.BootstrapPort = string(disagg.Mooncake), uint16(n)
	})
	if a := r.chat(p.address); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	if b := d.requests()[0].body; !strings.Contains(b, `"remote_bootstrap_addr":"http://`+boot.address+`","remote_engine_id":"e"`) {
		t.Errorf("%s", b)
	}
	if g := boot.requests(); len(g) != 1 || g[0].path != "/query" {
		t.Errorf("%+v", g)
	}
	t.Run("nobody tells", func(t *testing.T) {
		r := newRig(t, d, []*engine{p}, func(c *Config) { c.Prefill.Connector, c.Prefill.BootstrapPort = string(disagg.Mooncake), 1 })
		if a := r.chat(p.address); a.status != 502 || a.header.Get("X-Pointsman-Reason") != "prefill-failed" || !strings.Contains(a.body, "bootstrap-failed") {
			t.Errorf("%+v", a)
		}
		if r.value("prefill_legs_total", "reason", "bootstrap-failed") != 1 {
			t.Error("not counted")
		}
	})
	t.Run("nobody tells, and it goes on here", func(t *testing.T) {
		d := newEngine(t, decodes())
		r := newRig(t, d, []*engine{p}, func(c *Config) {
			c.Prefill.Connector, c.Prefill.BootstrapPort, c.Prefill.OnFailure = string(disagg.Mooncake), 1, []string{localPrefill}
		})
		if a := r.chat(p.address); a.status != 200 || d.requests()[0].body != client || r.value("decode_only_total", "reason", "bootstrap-failed") != 1 {
			t.Errorf("%+v", a)
		}
	})
}

// E32: with MoRI-IO's legs at once the client hears of a prefill leg that fails, though the
// model server beside has answered 200; and it hears in time of one that hangs.
func TestE32MoRIIO(t *testing.T) {
	parallel := func(c *Config) {
		c.Prefill.MoRIIO.Write, c.Prefill.MoRIIO.Parallel, c.Prefill.MoRIIO.LocalIP = true, true, "10.0.0.7"
	}
	t.Run("E32", func(t *testing.T) {
		answered := make(chan struct{}, 1)
		p := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
			<-answered
			answers(503, "text/plain", "p broke")(w, r)
		})
		d := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "data: {}\n\n")
			_ = http.NewResponseController(w).Flush()
			answered <- struct{}{}
		})
		r := newRig(t, d, []*engine{p}, parallel)
		if a := r.chat(p.address); a.status != 503 || a.body != "p broke" || r.value("prefill_legs_total", "reason", "bad-status") != 1 {
			t.Errorf("%+v", a)
		}
		if b := p.requests()[0].body; !strings.Contains(b, `"remote_host":"10.0.0.7"`) {
			t.Errorf("%s", b)
		}
	})
	t.Run("it hangs", func(t *testing.T) {
		p, d := newEngine(t, hangs), newEngine(t, decodes())
		r := newRig(t, d, []*engine{p}, parallel, func(c *Config) { c.Prefill.MoRIIO.Within = 1e8 })
		if a := r.chat(p.address); a.status != 504 || a.header.Get("X-Pointsman-Reason") != "prefill-failed" || r.value("prefill_legs_total", "reason", "timeout") != 1 {
			t.Errorf("%+v", a)
		}
	})
	t.Run("all is well", func(t *testing.T) {
		p, d := newEngine(t, prefills()), newEngine(t, decodes())
		r := newRig(t, d, []*engine{p}, parallel)
		if a := r.chat(p.address); a.status != 200 || !strings.Contains(a.body, `"cached_tokens":7`) {
			t.Errorf("%+v", a)
		}
	})
}

// hangs is an engine that does not answer.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// What cannot be served is refused at the start.
func TestTransfersRefused(t *testing.T) {
	t.Setenv("POD_IP", "")
	for want, change := range map[string]func(c *Config){
		"prefill.p2p.port: 0":     func(c *Config) { c.Prefill.P2P.Port = 0 },
		"prefill.p2p.port: 65535": func(c *Config) { c.Prefill.P2P.Port, c.Decode.Ranks = 65535, 2 },
		"prefill.p2p.pull":        func(c *Config) { c.Prefill.P2P.Pull, c.Prefill.Connector = true, "mooncake" },
		"prefill.moriio.parallel": func(c *Config) { c.Prefill.MoRIIO.Parallel = true },
		"prefill.moriio.write":    func(c *Config) { c.Prefill.MoRIIO.Write, c.Prefill.Connector = true, "sglang" },
		"decode.chunkSize": func(c *Config) {
			c.Prefill.MoRIIO.Write, c.Prefill.MoRIIO.LocalIP, c.Decode.ChunkSize = true, "10.0.0.1", 16
		},
		"prefill.moriio.localIP: not set": func(c *Config) { c.Prefill.MoRIIO.Write = true },
		"prefill.moriio.localIP: \"pod/ns\" is neither an IP address nor a name": func(c *Config) {
			c.Prefill.MoRIIO.Write, c.Prefill.MoRIIO.LocalIP = true, "pod/ns"
		},
		"prefill.moriio.ranks: 0": func(c *Config) {
			c.Prefill.MoRIIO.Write, c.Prefill.MoRIIO.LocalIP, c.Prefill.MoRIIO.Ranks = true, "10.0.0.1", 0
		},
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	c := DefaultConfig()
	c.Prefill.MoRIIO.Write = true
	t.Setenv("POD_IP", "10.0.0.1")
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}
