package app

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// gatewayFlagSet is what the flags of the Inference Gateway's endpoint pickers say. Every
// flag of theirs is taken, in the older spelling and the newer: it is a setting of ours,
// which wins over the settings file and --set; or a note that says what does its work
// here; or an error that says why there is no such thing.
type gatewayFlagSet struct {
	fs    *flag.FlagSet
	sets  []string
	notes []flagNote
}

// flagNote tells of a flag that is taken and does nothing.
type flagNote struct{ flag, instead string }

// gatewayFlags registers the flags by which charts and gateways start an endpoint
// picker.
func gatewayFlags(fs *flag.FlagSet) *gatewayFlagSet {
	g := &gatewayFlagSet{fs: fs}
	g.port("listen.extProc.address", "gRPC port of ext_proc", "grpcPort", "grpc-port")
	g.port("listen.extProc.healthAddress", "port of the gRPC health service", "grpcHealthPort", "grpc-health-port")
	g.port("admin.address", "port of metrics, health and build information", "metricsPort", "metrics-port")
	g.text("listen.extProc.certPath", "directory with tls.crt and tls.key", "certPath", "cert-path")
	g.lower("listen.extProc.destinationHeader", "header that tells where to go", "destinationEndpointHintKey", "destination-endpoint-hint-key")
	g.text("listen.extProc.destinationNamespace", "metadata namespace of the destination",
		"destinationEndpointHintMetadataNamespace", "DestinationEndpointHintMetadataNamespace", "destination-endpoint-hint-metadata-namespace")
	g.truth("listen.extProc.secureServing", "serve ext_proc over TLS, by default with a certificate made at the start", "secureServing", "secure-serving")
	g.truth("listen.extProc.ignoreSubset", "pick among all endpoints, whatever the proxy allows", "disableEndpointSubsetFilter", "disable-endpoint-subset-filter")
	g.truth("admin.pprof", "serve profiles on the admin port, whatever address it is bound to", "enablePprof", "enable-pprof")
	g.span("roster.stalenessLimit", "age above which an endpoint's figures are not believed", "metricsStalenessThreshold", "metrics-staleness-threshold")
	g.add("largest body of a request, in bytes (`number`); the same as --set listen.extProc.maxRequestBytes=N and --set listen.http.maxRequestBytes=N", func(v string) error {
		if n, err := strconv.ParseInt(v, 10, 64); err != nil || n < 1 {
			return errors.New("want a number above zero")
		}
		g.set("listen.extProc.maxRequestBytes", v)
		g.set("listen.http.maxRequestBytes", v)
		return nil
	}, "maxRequestBytes", "max-request-bytes")
	g.logFlags()
	g.collectorFlags()
	g.otherFlags()
	return g
}

func (g *gatewayFlagSet) set(key, value string) { g.sets = append(g.sets, key+"="+value) }

// add registers a flag under all of its names.
func (g *gatewayFlagSet) add(usage string, take func(v string) error, names ...string) {
	for _, name := range names {
		g.fs.Func(name, usage, take)
	}
}

func (g *gatewayFlagSet) port(key, usage string, names ...string) {
	g.add(usage+" (`port`); the same as --set "+key+"=:PORT", func(v string) error {
		if n, err := strconv.ParseUint(v, 10, 16); err != nil || n == 0 {
			return errors.New("want a port, 1 to 65535")
		}
		g.set(key, strconv.Quote(":"+v))
		return nil
	}, names...)
}

func (g *gatewayFlagSet) text(key, usage string, names ...string) {
	g.add(usage+" (`text`); the same as --set "+key+"=TEXT", func(v string) error { g.set(key, strconv.Quote(v)); return nil }, names...)
}

// lower is as text, for what has no upper case.
func (g *gatewayFlagSet) lower(key, usage string, names ...string) {
	g.add(usage+" (`text`); the same as --set "+key+"=TEXT", func(v string) error { g.set(key, strconv.Quote(strings.ToLower(v))); return nil }, names...)
}

func (g *gatewayFlagSet) span(key, usage string, names ...string) {
	g.add(usage+" (`duration`); the same as --set "+key+"=DURATION", func(v string) error {
		if _, err := time.ParseDuration(v); err != nil {
			return errors.New("want a duration, such as 2s")
		}
		g.set(key, v)
		return nil
	}, names...)
}

func (g *gatewayFlagSet) truth(key, usage string, names ...string) {
	g.boolean(usage+"; the same as --set "+key+"=", func(_ string, on bool) error { g.set(key, strconv.FormatBool(on)); return nil }, names...)
}

// boolean registers a flag that may stand without a value, under all of its names.
func (g *gatewayFlagSet) boolean(usage string, take func(name string, on bool) error, names ...string) {
	for _, name := range names {
		g.fs.BoolFunc(name, usage, func(v string) error {
			on, err := strconv.ParseBool(v)
			if err != nil {
				return fmt.Errorf("want true or false, not %q", v)
			}
			return take(name, on)
		})
	}
}

// note registers a flag that is taken and does nothing; instead says what does its work.
func (g *gatewayFlagSet) note(instead string, names ...string) {
	for _, name := range names {
		g.fs.Func(name, "taken and not needed (`text`): "+instead, func(string) error {
			g.notes = append(g.notes, flagNote{name, instead})
			return nil
		})
	}
}

// noteTruth is as note, for a flag that may stand without a value.
func (g *gatewayFlagSet) noteTruth(instead string, names ...string) {
	g.boolean("taken and not needed: "+instead, func(name string, _ bool) error {
		g.notes = append(g.notes, flagNote{name, instead})
		return nil
	}, names...)
}
