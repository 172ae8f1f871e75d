package app

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

// options is what the command line says.
type options struct {
	Config
	ignored []string // flags that are taken and do nothing
}

// parse reads flags and settings. The flags of llm-d's routing sidecar keep their names;
// each is short for a setting, and goes before the file.
func parse(args []string, stdout io.Writer) (*options, error) {
	fs := flag.NewFlagSet(Name, flag.ContinueOnError)
	sources := conf.Flags(fs)
	o := &options{Config: DefaultConfig()}
	f := &flags{fs: fs}
	f.pool()
	f.addresses()
	f.secure()
	f.prefill()
	f.others(o)
	if err := conf.ParseFlags(fs, args, stdout); err != nil {
		return nil, err
	}
	f.finish()
	return o, conf.Load(sources.File, slices.Concat(f.sets, sources.Sets), &o.Config)
}

// flags turns flags into settings.
type flags struct {
	fs   *flag.FlagSet
	sets []string
	cert string // --cert-path
	tls  bool   // --secure-proxy
}

func (f *flags) set(key string, value any) { f.sets = append(f.sets, fmt.Sprintf("%s=%v", key, value)) }

// port adds a flag that sets the port of an address.
func (f *flags) port(name, key, host, usage string) {
	f.fs.Func(name, usage, func(v string) error {
		if n, err := strconv.ParseUint(v, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%q is not a port", v)
		}
		f.set(key, strconv.Quote(host+":"+v))
		return nil
	})
}

// direct adds a flag that is a setting by another name.
func (f *flags) direct(name, key, usage string) {
	f.fs.Func(name, usage+" (the setting "+key+")", func(v string) error { f.set(key, v); return nil })
}

// boolean adds a flag that may be given without a value.
func (f *flags) boolean(name, usage string, given func(bool)) {
	f.fs.BoolFunc(name, usage, func(v string) error {
		on, err := strconv.ParseBool(v)
		if err == nil {
			given(on)
		}
		return err
	})
}

func (f *flags) pool() {
	f.fs.Func("pool", "`NAME` of the pool (the setting pool)", func(v string) error { f.set("pool", strconv.Quote(v)); return nil })
}

func (f *flags) addresses() {
	f.port("port", "listen.address", "", "`PORT` to listen on, on all interfaces (the setting listen.address)")
	for _, name := range []string{"model-server-port", "vllm-port"} {
		f.port(name, "decode.address", "127.0.0.1", "`PORT` of the model server beside (the setting decode.address)")
	}
	f.fs.Func("metrics-port", "`PORT` of /metrics and health, on all interfaces; 0: none (the setting admin.address)", func(v string) error {
		n, err := strconv.ParseUint(v, 10, 16)
		switch {
		case err != nil:
			return fmt.Errorf("%q is not a port", v)
		case n == 0:
			f.set("admin.address", `""`)
		default:
			f.set("admin.address", strconv.Quote(":"+v))
		}
		return nil
	})
	f.direct("data-parallel-size", "decode.ranks", "how many data-parallel `RANKS` there are")
	f.direct("max-idle-conns-per-host", "idleConnections", "unused connections kept per model server, a `NUMBER`")
}

func (f *flags) secure() {
	f.boolean("secure-proxy", "serve over TLS: with --cert-path, or with a certificate made at the start (the settings listen.tls and listen.selfSigned); default false", func(on bool) { f.tls = on })
	f.fs.StringVar(&f.cert, "cert-path", "", "`DIRECTORY` with tls.crt and tls.key")
	f.fs.Func("enable-tls", "`STAGES` to call over TLS: prefiller, decoder (the settings prefill.scheme, decode.scheme)", func(v string) error {
		return stages(v, func(key string) { f.set(key+".scheme", "https") })
	})
	f.fs.Func("tls-insecure-skip-verify", "`STAGES` whose certificates are not checked (the settings prefill.tls.insecureSkipVerify, decode.tls.insecureSkipVerify)", func(v string) error {
		return stages(v, func(key string) { f.set(key+".tls.insecureSkipVerify", true) })
	})
}

// stages reads a list of stages.
func stages(list string, each func(key string)) error {
	for name := range strings.SplitSeq(list, ",") {
		switch strings.TrimSpace(name) {
		case "":
		case "prefiller":
			each("prefill")
		case "decoder":
			each("decode")
		case "encoder": // nobody is called for it
		default:
			return fmt.Errorf("%q is none of prefiller, decoder, encoder", name)
		}
	}
	return nil
}

func (f *flags) prefill() {
	for _, name := range []string{"kv-connector", "connector"} {
		f.direct(name, "prefill.connector", "how a KV cache is handed over, a `NAME`")
	}
	f.direct("prefill-max-retries", "prefill.retries", "how often a prefill leg is tried again, a `NUMBER`")
	f.direct("prefill-retry-backoff", "prefill.backoff", "`TIME` before the same endpoint is tried again")
	f.boolean("enable-prefiller-sampling", "begin with a random one of the endpoints that are named (the setting prefill.sampling)", func(on bool) { f.set("prefill.sampling", on) })
	f.boolean("enable-ssrf-protection", "let requests name endpoints of the pool only (the setting allow.pool); default true", func(on bool) { f.set("allow.pool", on) })
}

// others are flags that do nothing here, and those that would have to do something.
func (f *flags) others(o *options) {
	for _, name := range []string{"inference-pool", "inference-pool-namespace", "inference-pool-name", "pool-group", "mooncake-bootstrap-port", "p2p-connector-port"} {
		f.fs.Func(name, "taken, and does nothing (`VALUE`): the endpoints of the pool are broadcast", func(string) error {
			o.ignored = append(o.ignored, name)
			return nil
		})
	}
	f.fs.Func("ec-connector", "ec-example: have media encoded by others, into a storage that the engines share (the setting encode.enabled); empty: do not (`NAME`)", func(v string) error {
		switch v {
		case "", "ec-example":
			f.set("encode.enabled", v != "")
			return nil
		}
		return fmt.Errorf("%q is not supported here, ec-example is", v)
	})
	for name, off := range map[string]string{"decode-chunk-size": "0"} {
		f.fs.Func(name, fmt.Sprintf("taken if it is %q (`VALUE`): there is no such thing here", off), func(v string) error {
			if v != off {
				return fmt.Errorf("%q is not supported here", v)
			}
			return nil
		})
	}
	f.boolean("enable-p2p-pull", "taken if it is false: there is no such thing here", func(on bool) {
		if on {
			f.sets = append(f.sets, "prefill.connector=p2p") // which is refused by name
		}
	})
	for _, name := range []string{"configuration", "configuration-file"} {
		f.fs.Func(name, "not supported (`VALUE`): settings are in --config", func(string) error {
			return errors.New("its settings have other names here: see --config")
		})
	}
}

// finish settles what several flags say together.
func (f *flags) finish() {
	switch {
	case f.tls && f.cert != "":
		f.set("listen.tls.certFile", strconv.Quote(filepath.Join(f.cert, "tls.crt")))
		f.set("listen.tls.keyFile", strconv.Quote(filepath.Join(f.cert, "tls.key")))
	case f.tls:
		f.set("listen.selfSigned", true)
	}
}
