package app

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pointsman/pointsman/internal/kit/conf"
	"github.com/pointsman/pointsman/internal/kit/run"
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
	var named configuration
	named.flags(fs)
	f.pool()
	f.addresses()
	f.secure()
	f.prefill()
	f.transfers()
	f.others(o)
	if err := conf.ParseFlags(fs, args, stdout); err != nil {
		return nil, err
	}
	given := f.sets
	f.sets = nil
	if err := named.apply(fs); err != nil {
		return nil, err
	}
	f.sets = append(f.sets, given...) // the later ones count
	if err := f.finish(); err != nil {
		return nil, run.UsageError{Err: err}
	}
	if err := o.environment(os.Getenv); err != nil {
		return nil, err
	}
	return o, conf.Load(sources.File, slices.Concat(f.sets, sources.Sets), &o.Config)
}

// flags turns flags into settings.
type flags struct {
	fs   *flag.FlagSet
	sets []string
	cert string // --cert-path
	tls  bool   // --secure-proxy

	named                      bool // --pool is given
	pools, poolSpace, poolName string
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
	f.fs.Func("pool", "`NAME` of the pool (the setting pool)", func(v string) error {
		f.named = true
		f.set("pool", strconv.Quote(v))
		return nil
	})
	f.fs.StringVar(&f.pools, "inference-pool", "", "`NAMESPACE/NAME` of the InferencePool, or its name in the namespace default: the pool as collectors that follow Kubernetes name it")
	f.fs.StringVar(&f.poolSpace, "inference-pool-namespace", "", "its `NAMESPACE`, with --inference-pool-name")
	f.fs.StringVar(&f.poolName, "inference-pool-name", "", "its `NAME`")
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
	for name, key := range map[string]string{"prefiller-use-tls": "prefill.scheme", "decoder-use-tls": "decode.scheme"} {
		f.boolean(name, "older than --enable-tls (the setting "+key+")", func(on bool) {
			if on {
				f.set(key, "https")
			}
		})
	}
	for name, key := range map[string]string{"prefiller-tls-insecure-skip-verify": "prefill", "decoder-tls-insecure-skip-verify": "decode"} {
		f.boolean(name, "older than --tls-insecure-skip-verify (the setting "+key+".tls.insecureSkipVerify)", func(on bool) { f.set(key+".tls.insecureSkipVerify", on) })
	}
	f.fs.Func("enable-tls", "`STAGES` to call over TLS: prefiller, decoder, encoder (the settings prefill.scheme, decode.scheme, encode.scheme)", func(v string) error {
		return stages(v, func(key string) { f.set(key+".scheme", "https") })
	})
	f.fs.Func("tls-insecure-skip-verify", "`STAGES` whose certificates are not checked (the settings prefill.tls.insecureSkipVerify and so on)", func(v string) error {
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
		case "encoder":
			each("encode")
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
	f.fs.Func("pool-group", "taken, and does nothing (`GROUP`): collectors follow both", func(string) error {
		o.ignored = append(o.ignored, "pool-group")
		return nil
	})
	f.fs.Func("ec-connector", "have media encoded by others: ec-example, into a storage that the engines share, or ec-nixl, to be fetched from them (the settings encode.enabled, encode.connector); empty: do not (`NAME`)", func(v string) error {
		if f.set("encode.enabled", v != ""); v != "" {
			f.text("encode.connector", v)
		}
		return nil
	})
	f.direct("decode-chunk-size", "decode.chunkSize", "how many `TOKENS` of a chat's answer are decoded at once; 0: all")
}

// inferencePool returns the name of the pool that the flags name. Where they have one half of
// it the environment may have the other.
func (f *flags) inferencePool(get func(string) string) (string, error) {
	space, name := f.poolSpace, f.poolName
	switch {
	case name != "" && space == "":
		space = get(envPoolNamespace)
	case name == "" && space != "":
		name = get(envPoolName)
	}
	return poolName(f.pools, space, name)
}

// finish settles what several flags say together.
func (f *flags) finish() error {
	if !f.named {
		pool, err := f.inferencePool(os.Getenv)
		switch {
		case err != nil:
			return fmt.Errorf("--inference-pool: %w", err)
		case pool != "":
			f.text("pool", pool)
		}
	}
	switch {
	case f.tls && f.cert != "":
		f.set("listen.tls.certFile", strconv.Quote(filepath.Join(f.cert, "tls.crt")))
		f.set("listen.tls.keyFile", strconv.Quote(filepath.Join(f.cert, "tls.key")))
	case f.tls:
		f.set("listen.selfSigned", true)
	}
	return nil
}
