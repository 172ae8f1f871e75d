package discover

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

func dnsName(host string, port int) DNSConfig {
	return DNSConfig{Name: host, Traits: Traits{Port: port}}
}

func TestNamesAreFollowed(t *testing.T) {
	cfg := quick()
	cfg.DNS = []DNSConfig{dnsName("pool.example", 8000)}
	b := newBench(t)
	b.zone.set("pool.example", nil, "10.0.0.2", "10.0.0.1", "fd00::1", "::ffff:10.0.0.1")
	b.start(cfg)
	b.wait("10.0.0.1:8000", "10.0.0.2:8000", "[fd00::1]:8000")

	b.zone.set("pool.example", errServfail)
	kittest.Eventually(t, "failures are counted", func() bool { return b.faults("dns") > 10 })
	b.wait("10.0.0.1:8000", "10.0.0.2:8000", "[fd00::1]:8000")
	if n := b.logged("does not resolve"); n != 1 {
		t.Errorf("%d lines about a name that does not resolve, want 1", n)
	}

	b.zone.set("pool.example", nil, "10.0.0.2", "10.0.0.3")
	b.wait("10.0.0.2:8000", "10.0.0.3:8000")
	if n := b.logged("resolves again"); n != 1 {
		t.Errorf("%d lines about the recovery, want 1", n)
	}

	b.zone.set("pool.example", errNotFound) // a headless service without pods
	b.wait()
}

func TestNothingIsToldBeforeAllHaveAnswered(t *testing.T) {
	cfg := quick()
	cfg.Endpoints = []EndpointConfig{{Address: "10.0.0.9", Traits: Traits{Port: 1}}}
	cfg.DNS = []DNSConfig{dnsName("good.example", 1), dnsName("bad.example", 1)}
	b := newBench(t)
	b.zone.set("good.example", nil, "10.0.0.1")
	b.zone.set("bad.example", errServfail)
	b.start(cfg)
	b.wait("10.0.0.9:1", "10.0.0.1:1")
	if n := b.told(); n != 1 {
		t.Errorf("told %d sets, want one", n)
	}
	if ready, why := b.tel.Health.Ready(); !ready {
		t.Errorf("not ready: %v", why)
	}
}

func TestNameThatIsMissingForAMoment(t *testing.T) {
	var a answers
	if !a.take(addrs("10.0.0.1"), nil) || a.take(addrs("10.0.0.1"), nil) {
		t.Error("new addresses are news, the same ones are not")
	}
	for range goneAfter - 1 {
		if a.take(nil, errNotFound) {
			t.Error("endpoints left at the first word of it")
		}
	}
	a.take(addrs("10.0.0.1"), nil)
	for range goneAfter - 1 {
		if a.take(nil, errNotFound) {
			t.Error("failures before a good answer were counted")
		}
	}
	if !a.take(nil, errNotFound) || len(a.addresses) != 0 {
		t.Error("a name that is gone keeps its endpoints")
	}
	if a.take(nil, errServfail) || a.take(nil, errNotFound) {
		t.Error("nothing is new")
	}
}

func TestFirstSourceCounts(t *testing.T) {
	cfg := quick()
	cfg.Endpoints = []EndpointConfig{{Address: "10.0.0.1", ID: "given", Traits: Traits{Port: 80}}}
	cfg.DNS = []DNSConfig{dnsName("a.example", 80), dnsName("b.example", 80)}
	b := newBench(t)
	b.zone.set("a.example", nil, "10.0.0.1", "10.0.0.2")
	b.zone.set("b.example", nil, "10.0.0.2", "10.0.0.3")
	b.start(cfg)
	b.wait("given", "10.0.0.2:80", "10.0.0.3:80")
}

func TestTooManyEndpointsAreRefused(t *testing.T) {
	var many []string
	for i := range 4097 {
		many = append(many, fmt.Sprintf("10.0.%d.%d", i/256, i%256))
	}
	cfg := quick()
	cfg.DNS = []DNSConfig{dnsName("pool.example", 80)}
	b := newBench(t)
	b.zone.set("pool.example", nil, "10.1.0.1")
	b.start(cfg)
	b.wait("10.1.0.1:80")
	b.zone.set("pool.example", nil, many...)
	kittest.Eventually(t, "the set is refused", func() bool { return b.faults("merge") == 1 })
	b.wait("10.1.0.1:80")
	b.zone.set("pool.example", nil, many[:4096]...)
	kittest.Eventually(t, "as many as a table holds are taken", func() bool { return len(b.keys()) == 4096 })
}

func TestTarget(t *testing.T) {
	plain := fleet.Source{Scheme: "http", Port: 8000}
	page, list := plain, plain
	page.Path, list.Path = "/metrics", "/v1/models"
	for name, c := range map[string]struct {
		endpoint EndpointConfig
		defaults DefaultsConfig
		want     fleet.Target
	}{
		"least": {
			EndpointConfig{Address: "10.0.0.1", Traits: Traits{Port: 8000}}, DefaultsConfig{},
			fleet.Target{Host: "10.0.0.1", Port: 8000, Scheme: "http", Metrics: page, ModelList: list},
		},
		"IPv6 in brackets, spelt at length": {
			EndpointConfig{Address: "[fd00:0::0001]", Traits: Traits{Port: 8000}}, DefaultsConfig{},
			fleet.Target{Host: "fd00::1", Port: 8000, Scheme: "http", Metrics: page, ModelList: list},
		},
		"everything": {
			EndpointConfig{Address: "engine.example", ID: "e1", Traits: Traits{
				Port: 443, Scheme: "https", Labels: map[string]string{"b": "2", "a": "1"}, Engine: "sglang", Models: []string{"y", "x", "y"},
				Interval:  conf.Duration(time.Second),
				Metrics:   SourceConfig{Path: "/m", Port: 9000, Scheme: "http", Token: "t"},
				ModelList: SourceConfig{TLS: TLSConfig{InsecureSkipVerify: true}},
			}},
			DefaultsConfig{Metrics: SourceConfig{Path: "/default", TokenFile: "file"}, ModelList: SourceConfig{Path: "/models", TokenFile: "key", TLS: TLSConfig{CAFile: "ca"}}},
			fleet.Target{
				GivenID: "e1", Host: "engine.example", Port: 443, Scheme: "https", Engine: "sglang", Interval: time.Second,
				Labels: []fleet.Label{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}}, Models: []string{"x", "y"},
				Metrics:   fleet.Source{Scheme: "http", Port: 9000, Path: "/m", Token: "t"},
				ModelList: fleet.Source{Scheme: "https", Port: 443, Path: "/models", TokenFile: "key", TLS: fleet.TLS{InsecureSkipVerify: true}},
			},
		},
		"defaults": {
			EndpointConfig{Address: "10.0.0.1", Traits: Traits{Port: 8000}},
			DefaultsConfig{Metrics: SourceConfig{Port: 9001, Scheme: "https", Token: "t", TLS: TLSConfig{CAFile: "ca", ServerName: "engine"}}},
			fleet.Target{
				Host: "10.0.0.1", Port: 8000, Scheme: "http", ModelList: list,
				Metrics: fleet.Source{Scheme: "https", Port: 9001, Path: "/metrics", Token: "t", TLS: fleet.TLS{CAFile: "ca", ServerName: "engine"}},
			},
		},
		"engine of the label": {
			EndpointConfig{Address: "10.0.0.1", Traits: Traits{Port: 8000, Labels: map[string]string{"llm-d.ai/engine-type": "trtllm-serve", "inference.networking.k8s.io/engine-type": "vllm"}}}, DefaultsConfig{},
			fleet.Target{
				Host: "10.0.0.1", Port: 8000, Scheme: "http", Engine: "trtllm-serve", ModelList: list,
				Metrics: fleet.Source{Scheme: "http", Port: 8000, Path: "/prometheus/metrics"},
				Labels:  []fleet.Label{{Name: "inference.networking.k8s.io/engine-type", Value: "vllm"}, {Name: "llm-d.ai/engine-type", Value: "trtllm-serve"}},
			},
		},
		"engine of the older label": {
			EndpointConfig{Address: "10.0.0.1", Traits: Traits{Port: 8000, Labels: map[string]string{"inference.networking.k8s.io/engine-type": "sglang"}}}, DefaultsConfig{},
			fleet.Target{
				Host: "10.0.0.1", Port: 8000, Scheme: "http", Engine: "sglang", Metrics: page, ModelList: list,
				Labels: []fleet.Label{{Name: "inference.networking.k8s.io/engine-type", Value: "sglang"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(&c.want, c.endpoint.target(c.defaults)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestUnknownEngineLabelIsToldOnce(t *testing.T) {
	cfg := quick()
	labels := map[string]string{"llm-d.ai/engine-type": "homegrown"}
	cfg.Endpoints = []EndpointConfig{{Address: "10.0.0.1", Traits: Traits{Port: 1, Labels: labels}}, {Address: "10.0.0.1", Traits: Traits{Port: 2, Labels: labels}}}
	b := newBench(t)
	b.start(cfg)
	b.wait("10.0.0.1:1", "10.0.0.1:2")
	if n := b.logged("homegrown"); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
}

func TestFaultsNameTheirKeys(t *testing.T) {
	text := `
endpoints:
- {address: "10.0.0.1:8000", port: 8000}
- {address: "not a host", port: 70000, scheme: ftp}
- {address: 10.0.0.1, port: 1, id: "a#2", engine: tgi}
- {address: 10.0.0.1, port: 1, models: [""]}
- {port: 2, interval: 10us, metrics: {path: metrics, token: a, tokenFile: b, tls: {certFile: c}}}
- {address: 10.0.0.2, port: 2, metrics: {port: -1, token: "a b"}}
dns:
- {port: 1}
defaults: {metrics: {scheme: gopher}}
discovery: {dnsInterval: 0s}
`
	cfg := DefaultConfig()
	err := conf.Parse("c.yaml", []byte(text), &cfg)
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{
		`c.yaml:3:13: endpoints[0].address: "10.0.0.1:8000" is no IP address or host name; the port goes into port`,
		`endpoints[1].address: "not a host" is no IP address or host name`,
		`endpoints[1].port: must be from 1 to 65535, not 70000`,
		`endpoints[1].scheme: must be http or https, not "ftp"`,
		`endpoints[2].id: "a#2" holds a blank, a control character or #`,
		`endpoints[2].engine: must be one of [vllm sglang trtllm-serve triton-tensorrt-llm], not "tgi"`,
		`endpoints[3]: is the same endpoint as endpoints[2] (10.0.0.1:1)`,
		`endpoints[3].models[0]: is empty`,
		`endpoints[4].address: is missing`,
		`endpoints[4].interval: must be at least 1ms, not 10µs`,
		`endpoints[4].metrics.path: must begin with a slash, "metrics" does not`,
		`endpoints[4].metrics.tokenFile: cannot be combined with token: keep one`,
		`endpoints[4].metrics.tls: certFile and keyFile belong together: set both or neither`,
		`endpoints[5].metrics.port: must be from 1 to 65535, not -1`,
		`endpoints[5].metrics.token: holds characters that no HTTP header may have`,
		`dns[0].name: is missing`,
		`defaults.metrics.scheme: must be http or https, not "gopher"`,
		`discovery.dnsInterval: must be at least 1ms, not 0s`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}
