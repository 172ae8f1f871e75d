package app

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Flags in a document are flags; those of the command line go before, also by another name.
func TestConfiguration(t *testing.T) {
	const doc = `{port: 8001, model-server-port: 8201, enable-tls: [prefiller, decoder], secure-proxy: true, enable-prefiller-sampling: true, kv-connector: sglang, inference-pool: ns/pool, decode-chunk-size: 16}`
	file := filepath.Join(t.TempDir(), "flags.yaml")
	if err := os.WriteFile(file, []byte("# of the sidecar\n"+strings.NewReplacer("{", "", "}", "", ", m", "\nm", ", e", "\ne", ", s", "\ns", ", k", "\nk", ", i", "\ni", ", d", "\nd").Replace(strings.Replace(doc, "[prefiller, decoder]", "\n- prefiller\n- decoder", 1))), 0o600); err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.Pool = "ns/pool"
	c := &want.Proxy
	c.Listen.Address, c.Listen.SelfSigned, c.Decode.Address, c.Decode.Scheme, c.Decode.ChunkSize = ":8001", true, "127.0.0.1:8202", "https", 16
	c.Prefill.Scheme, c.Prefill.Sampling, c.Prefill.Connector = "https", false, "shared-storage"
	for _, from := range []string{"--configuration=" + doc, "--configuration-file=" + file} {
		o, err := parse([]string{from, "--vllm-port=8202", "--enable-prefiller-sampling=false", "--set=prefill.connector=shared-storage"}, io.Discard)
		if err != nil {
			t.Fatalf("%s: %v", from, err)
		}
		if diff := cmp.Diff(want, o.Config); diff != "" {
			t.Errorf("%s: %s", from, diff)
		}
	}
	if o, err := parse([]string{"--configuration={port: 8001}", "--port=8002"}, io.Discard); err != nil || o.Proxy.Listen.Address != ":8002" {
		t.Errorf("%+v, %v", o.Proxy.Listen, err)
	}
	for _, args := range [][]string{
		{"--configuration={pool: x, inference-pool-name: y}", "--inference-pool=m/q"},
		{"--configuration={pool: x, inference-pool: a/b}", "--inference-pool-name=q", "--inference-pool-namespace=m"},
		{"--configuration={inference-pool: a/b}", "--pool=m/q"},
	} {
		if o, err := parse(args, io.Discard); err != nil || o.Pool != "m/q" {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, err := parse([]string{"--configuration="}, io.Discard); err != nil {
		t.Errorf("an empty one: %v", err)
	}
	for bad, fault := range map[string]string{
		"--configuration={} --configuration-file=" + file: "give one of both",
		"--configuration-file=" + file + ".x":             "no such file",
		"--configuration={nothing:x}":                     "nothing",
		"--configuration={\"a\":1}":                       "line 1: a: there is no such flag",
		"--configuration={\"set\":\"x=1\"}":               "line 1: set: there is no such flag",
		"--configuration={\"port\":1,\"port\":2}":         "port: is there twice",
		"--configuration={\"port\":{}}":                   "port: want one value",
		"--configuration={\"port\":null}":                 "port: want one value",
		"--configuration={\"port\":0}":                    "is not a port",
		"--configuration=[1]":                             "want a mapping",
		"--configuration={":                               "--configuration: ",
		"--configuration={\"kv-connector\":\"lmcache\"}":  "prefill.connector",
	} {
		if _, err := parse(strings.Fields(bad), io.Discard); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v, want %q", bad, err, fault)
		}
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, make([]byte, maxConfiguration+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := parse([]string{"--configuration-file=" + large}, io.Discard); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("a large file: %v", err)
	}
}

// The environment has defaults, before which everything else goes.
func TestEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name   string
		env    map[string]string
		args   string
		change func(c *Config)
		fault  string
	}{
		{"sampling", map[string]string{"ENABLE_PREFILLER_SAMPLING": "true"}, "", func(c *Config) { c.Proxy.Prefill.Sampling = true }, ""},
		{"sampling, and not", map[string]string{"ENABLE_PREFILLER_SAMPLING": "true"}, "--enable-prefiller-sampling=false", func(*Config) {}, ""},
		{"sampling, perhaps", map[string]string{"ENABLE_PREFILLER_SAMPLING": "perhaps"}, "", nil, "ENABLE_PREFILLER_SAMPLING"},
		{"port", map[string]string{"SGLANG_BOOTSTRAP_PORT": "9000"}, "", func(c *Config) { c.Proxy.Prefill.BootstrapPort = 9000 }, ""},
		{"another port", map[string]string{"SGLANG_BOOTSTRAP_PORT": "9000"}, "--set=prefill.bootstrapPort=9001", func(c *Config) { c.Proxy.Prefill.BootstrapPort = 9001 }, ""},
		{"no port", map[string]string{"SGLANG_BOOTSTRAP_PORT": "0"}, "", nil, "SGLANG_BOOTSTRAP_PORT"},
		{"pool", map[string]string{"INFERENCE_POOL": "ns/p"}, "", func(c *Config) { c.Pool = "ns/p" }, ""},
		{"pool without a namespace", map[string]string{"INFERENCE_POOL": "p"}, "", func(c *Config) { c.Pool = "default/p" }, ""},
		{"pool in parts", map[string]string{"INFERENCE_POOL_NAMESPACE": "ns", "INFERENCE_POOL_NAME": "p"}, "", func(c *Config) { c.Pool = "ns/p" }, ""},
		{"half a pool", map[string]string{"INFERENCE_POOL_NAMESPACE": "ns"}, "", func(*Config) {}, ""},
		{"pool of a flag", map[string]string{"INFERENCE_POOL": "ns/p"}, "--inference-pool-name=q --inference-pool-namespace=m", func(c *Config) { c.Pool = "m/q" }, ""},
		{"half a pool of a flag", map[string]string{"INFERENCE_POOL_NAMESPACE": "ns", "INFERENCE_POOL_NAME": "p"}, "--inference-pool-name=q", func(c *Config) { c.Pool = "ns/q" }, ""},
		{"the other half of a flag", map[string]string{"INFERENCE_POOL_NAMESPACE": "ns", "INFERENCE_POOL_NAME": "p"}, "--inference-pool-namespace=m", func(c *Config) { c.Pool = "m/p" }, ""},
		{"pool by our name", map[string]string{"INFERENCE_POOL": "ns/p"}, "--pool=x --inference-pool=y", func(c *Config) { c.Pool = "x" }, ""},
		{"no pool", map[string]string{"INFERENCE_POOL": "a/b/c"}, "", nil, "INFERENCE_POOL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			o, err := parse(strings.Fields(tt.args), io.Discard)
			if tt.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("%v, want %q", err, tt.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := DefaultConfig()
			tt.change(&want)
			if diff := cmp.Diff(want, o.Config); diff != "" {
				t.Error(diff)
			}
		})
	}
	o, err := parse(strings.Fields("--prefiller-use-tls --decoder-use-tls --prefiller-tls-insecure-skip-verify --decoder-tls-insecure-skip-verify=true"), io.Discard)
	if c := o.Proxy; err != nil || c.Prefill.Scheme != "https" || c.Decode.Scheme != "https" || !c.Prefill.TLS.InsecureSkipVerify || !c.Decode.TLS.InsecureSkipVerify {
		t.Errorf("older flags: %+v, %v", c, err)
	}
}
