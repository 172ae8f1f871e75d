package app

import (
	"errors"
	"strconv"
)

// debugFrom is the verbosity from which endpoint pickers write for each request.
const debugFrom = 4

// logFlags are those of the logging libraries that endpoint pickers use.
func (g *gatewayFlagSet) logFlags() {
	g.add("verbosity of the log (`number`): 4 and above is --set log.level=debug, below it info", func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return errors.New("want a number, 0 to 10")
		}
		level := "info"
		if n >= debugFrom {
			level = "debug"
		}
		g.set("log.level", level)
		return nil
	}, "v")
	g.add("lowest level that is logged (`level`): debug, info, error, panic, or a verbosity above 0; the same as --set log.level=LEVEL", func(v string) error {
		level, known := map[string]string{"debug": "debug", "info": "info", "error": "error", "panic": "error"}[v]
		if n, err := strconv.Atoi(v); err == nil && n > 0 {
			level, known = "info", true
			if n >= debugFrom {
				level = "debug"
			}
		}
		if !known {
			return errors.New("want debug, info, error, panic, or a number above 0")
		}
		g.set("log.level", level)
		return nil
	}, "zap-log-level")
	g.add("`format` of the log, json or console; the same as --set log.format=json or text", func(v string) error {
		format, known := map[string]string{"json": "json", "console": "text"}[v]
		if !known {
			return errors.New("want json or console")
		}
		g.set("log.format", format)
		return nil
	}, "zap-encoder")
	g.noteTruth("log.level and log.format say how the log is written", "zap-devel")
	g.note("the log has stacks of panics alone", "zap-stacktrace-level")
	g.note("times in the log are RFC 3339", "zap-time-encoding")
}

// collectorFlags are those of what the metrics-collector does here.
func (g *gatewayFlagSet) collectorFlags() {
	const collector = "the metrics-collector reads model servers; "
	g.note(collector+"its scrape.interval says how often", "refreshMetricsInterval", "refresh-metrics-interval")
	g.note("the metrics page is made when it is read", "refreshPrometheusMetricsInterval", "refresh-prometheus-metrics-interval")
	g.note(collector+"it knows the metrics of each engine, old names and new; endpoints[].engine and the label llm-d.ai/engine-type choose",
		"totalQueuedRequestsMetric", "total-queued-requests-metric", "totalRunningRequestsMetric", "total-running-requests-metric",
		"kvCacheUsagePercentageMetric", "kv-cache-usage-percentage-metric", "loraInfoMetric", "lora-info-metric", "cacheInfoMetric", "cache-info-metric")
	g.note(collector+"its defaults.metrics says on which port, path and scheme",
		"modelServerMetricsPort", "model-server-metrics-port", "modelServerMetricsPath", "model-server-metrics-path",
		"modelServerMetricsScheme", "model-server-metrics-scheme")
	g.noteTruth(collector+"its defaults.metrics says how they are authenticated",
		"modelServerMetricsHttpsInsecureSkipVerify", "model-server-metrics-https-insecure-skip-verify")
	g.note("the metrics-collector follows InferencePools of both groups", "poolGroup", "pool-group")
	g.note("the metrics-collector finds endpoints; its endpoints, dns and kubernetes say where", "endpointSelector", "endpoint-selector", "endpointTargetPorts", "endpoint-target-ports")
}

// otherFlags are those that mean nothing here, or must not be believed to.
func (g *gatewayFlagSet) otherFlags() {
	g.noteTruth("health is always served, on listen.extProc.healthAddress and on every gRPC port", "healthChecking", "health-checking")
	g.noteTruth("routers are replicas that need no leader", "haEnableLeaderElection", "ha-enable-leader-election")
	g.noteTruth("certificates are always read again when they change", "enableCertReload", "enable-cert-reload")
	g.boolean("trace requests where tracing.otlpEndpoint says where to; false: the same as --set tracing.sampleRatio=0", func(name string, on bool) error {
		if on {
			g.notes = append(g.notes, flagNote{name, "requests are traced where tracing.otlpEndpoint says where to"})
		} else {
			g.set("tracing.sampleRatio", "0")
		}
		return nil
	}, "tracing")
	g.boolean("the admin port asks nobody who they are; true is an error", func(_ string, on bool) error {
		if on {
			return errors.New("the admin port asks nobody who they are: bind it to a loopback address (--set admin.address=127.0.0.1:9090) behind a proxy that does, and give false")
		}
		return nil
	}, "metricsEndpointAuth", "metrics-endpoint-auth")
}
