package app

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/services/disagg-sidecar/internal/proxy"
)

// The flags of how engines reach each other are settings by other names.
func TestTransferFlags(t *testing.T) {
	t.Setenv("POD_IP", "")
	for args, change := range map[string]func(c *proxy.PrefillConfig){
		"--kv-connector=mooncake --mooncake-bootstrap-port=9000": func(c *proxy.PrefillConfig) {
			c.Connector, c.BootstrapPort = "mooncake", 9000
		},
		"--kv-connector=offloading --p2p-connector-port 7000": func(c *proxy.PrefillConfig) {
			c.Connector, c.P2P.Port = "offloading", 7000
		},
		"--enable-p2p-pull":                                 func(c *proxy.PrefillConfig) { c.P2P.Pull = true },
		"--kv-connector=offloading --enable-p2p-pull":       func(c *proxy.PrefillConfig) { c.Connector, c.P2P.Pull = "offloading", true },
		"--kv-connector=sglang --enable-p2p-pull=false":     func(c *proxy.PrefillConfig) { c.Connector = "sglang" },
		"--moriio-write-mode --moriio-local-pod-ip=fd00::1": func(c *proxy.PrefillConfig) { c.MoRIIO.Write, c.MoRIIO.LocalIP = true, "fd00::1" },
		"--moriio-write-mode=true --moriio-local-pod-ip=10.0.0.1 --moriio-parallel-dispatch --moriio-parallel-decode-wait-timeout=5s --moriio-dp-size=4 --moriio-dp-size-local=2 --moriio-tp-size=8 " +
			"--moriio-decode-handshake-port=1 --moriio-decode-notify-port=2 --moriio-prefill-handshake-port=3 --moriio-prefill-notify-port=4 " +
			"--moriio-remote-hosts=10.0.1.1,10.0.1.2 --moriio-decode-hosts=10.0.2.1 --moriio-decode-hosts=10.0.2.2": func(c *proxy.PrefillConfig) {
			c.MoRIIO = proxy.MoRIIOConfig{
				Write: true, Parallel: true, Within: conf.Duration(5 * time.Second), LocalIP: "10.0.0.1", Ranks: 4, LocalRanks: 2, TensorRanks: 8,
				DecodeHandshakePort: 1, DecodeNotifyPort: 2, PrefillHandshakePort: 3, PrefillNotifyPort: 4,
				PrefillHosts: []string{"10.0.1.1", "10.0.1.2"}, DecodeHosts: []string{"10.0.2.1", "10.0.2.2"},
			}
		},
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		want := DefaultConfig().Proxy.Prefill
		change(&want)
		if diff := cmp.Diff(want, o.Proxy.Prefill); diff != "" {
			t.Errorf("%s: %s", args, diff)
		}
	}
	for args, want := range map[string]string{
		"--mooncake-bootstrap-port=x":               "prefill.bootstrapPort",
		"--p2p-connector-port=0":                    "prefill.p2p.port",
		"--kv-connector=mooncake --enable-p2p-pull": "prefill.p2p.pull",
		"--moriio-write-mode":                       "prefill.moriio.localIP",
		"--moriio-parallel-dispatch":                "prefill.moriio.parallel",
		"--kv-connector=mooncake --moriio-write-mode --moriio-local-pod-ip=10.0.0.1":                                                         "prefill.moriio.write",
		"--moriio-write-mode --moriio-local-pod-ip=10.0.0.1 --moriio-dp-size=8 --moriio-dp-size-local=3":                                     "prefill.moriio.localRanks",
		"--moriio-write-mode --moriio-local-pod-ip=10.0.0.1 --moriio-dp-size=2 --moriio-dp-size-local=1 --moriio-remote-hosts=p-0.ns:80,p-1": "prefill.moriio.prefillHosts[0]",
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to name %s", args, err, want)
		}
	}
}
