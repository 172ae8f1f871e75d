package app

import (
	"encoding/json"
	"strings"
)

// transfers are the flags of how engines reach each other.
func (f *flags) transfers() {
	f.direct("mooncake-bootstrap-port", "prefill.bootstrapPort", "where prefill servers listen for decoders, with the connector mooncake, a `PORT`")
	f.direct("p2p-connector-port", "prefill.p2p.port", "where rank 0 of engines hands out what it has offloaded, a `PORT`")
	f.boolean("enable-p2p-pull", "the engines can pull from others beside nixlv2 (the setting prefill.p2p.pull)", func(on bool) { f.set("prefill.p2p.pull", on) })
	f.boolean("moriio-write-mode", "prefill engines write to decode engines, with the connector nixlv2 (the setting prefill.moriio.write)", func(on bool) { f.set("prefill.moriio.write", on) })
	f.boolean("moriio-parallel-dispatch", "send both legs at once (the setting prefill.moriio.parallel)", func(on bool) { f.set("prefill.moriio.parallel", on) })
	f.direct("moriio-parallel-decode-wait-timeout", "prefill.moriio.within", "`TIME` for which the answer waits for the prefill leg")
	f.fs.Func("moriio-local-pod-ip", "`ADDRESS` under which others find the engine beside (the setting prefill.moriio.localIP)", func(v string) error { f.text("prefill.moriio.localIP", v); return nil })
	for name, key := range map[string]string{
		"moriio-decode-handshake-port": "decodeHandshakePort", "moriio-decode-notify-port": "decodeNotifyPort",
		"moriio-prefill-handshake-port": "prefillHandshakePort", "moriio-prefill-notify-port": "prefillNotifyPort",
	} {
		f.direct(name, "prefill.moriio."+key, "a `PORT` of rank 0")
	}
	f.direct("moriio-tp-size", "prefill.moriio.tensorRanks", "how many tensor-parallel `RANKS` an engine has")
	f.direct("moriio-dp-size", "prefill.moriio.ranks", "how many data-parallel `RANKS` there are in all")
	f.direct("moriio-dp-size-local", "prefill.moriio.localRanks", "how many data-parallel `RANKS` a pod has")
	f.hosts("moriio-remote-hosts", "prefill.moriio.prefillHosts")
	f.hosts("moriio-decode-hosts", "prefill.moriio.decodeHosts")
}

// hosts adds a flag with a list of hosts, which may be given several times.
func (f *flags) hosts(name, key string) {
	var all []string
	f.fs.Func(name, "`HOSTS` of the pods in the order of their ranks (the setting "+key+")", func(v string) error {
		for h := range strings.SplitSeq(v, ",") {
			all = append(all, strings.TrimSpace(h))
		}
		f.text(key, all)
		return nil
	})
}

// text sets a text, or several, quoted as YAML takes them.
func (f *flags) text(key string, value any) {
	quoted, err := json.Marshal(value)
	if err != nil { // texts do not fail
		return
	}
	f.set(key, string(quoted))
}
