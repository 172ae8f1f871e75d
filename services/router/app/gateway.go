package app

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
)

// gatewaySets is what the flags of the Inference Gateway's endpoint picker say, as
// settings of ours; they win over the settings file and --set.
type gatewaySets struct{ sets []string }

// gatewayFlags registers the flags by which charts and gateways start an endpoint
// picker, in the older spelling and the newer. Each stands for a setting.
func gatewayFlags(fs *flag.FlagSet) *gatewaySets {
	g := &gatewaySets{}
	port := func(key, usage string, names ...string) {
		g.add(fs, usage+" (`port`); the same as --set "+key+"=:PORT", func(v string) (string, error) {
			if n, err := strconv.ParseUint(v, 10, 16); err != nil || n == 0 {
				return "", fmt.Errorf("want a port, 1 to 65535")
			}
			return key + "=" + strconv.Quote(":"+v), nil
		}, names...)
	}
	text := func(key, usage string, change func(string) string, names ...string) {
		g.add(fs, usage+" (`text`); the same as --set "+key+"=TEXT", func(v string) (string, error) { return key + "=" + strconv.Quote(change(v)), nil }, names...)
	}
	same := func(v string) string { return v }
	port("listen.extProc.address", "gRPC port of ext_proc", "grpcPort", "grpc-port")
	port("listen.extProc.healthAddress", "port of the gRPC health service", "grpcHealthPort", "grpc-health-port")
	port("admin.address", "port of metrics, health and build information", "metricsPort", "metrics-port")
	text("listen.extProc.certPath", "directory with tls.crt and tls.key", same, "certPath", "cert-path")
	text("listen.extProc.destinationHeader", "header that tells where to go", strings.ToLower, "destinationEndpointHintKey")
	text("listen.extProc.destinationNamespace", "metadata namespace of the destination", same, "destinationEndpointHintMetadataNamespace")
	for _, name := range []string{"secureServing", "secure-serving"} {
		fs.BoolFunc(name, "serve ext_proc over TLS, by default with a certificate made at the start; the same as --set listen.extProc.secureServing=", func(v string) error {
			on, err := strconv.ParseBool(v)
			if err == nil {
				g.sets = append(g.sets, fmt.Sprintf("listen.extProc.secureServing=%t", on))
			}
			return err
		})
	}
	return g
}

func (g *gatewaySets) add(fs *flag.FlagSet, usage string, set func(string) (string, error), names ...string) {
	for _, name := range names {
		fs.Func(name, usage, func(v string) error {
			s, err := set(v)
			if err == nil {
				g.sets = append(g.sets, s)
			}
			return err
		})
	}
}
