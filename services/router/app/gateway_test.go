package app

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The flags of both generations of endpoint pickers, each with a value that it takes.
const (
	olderFlags = `grpcPort=9002 grpcHealthPort=9003 metricsPort=9090 poolName=p poolNamespace=n configFile=FILE configText= refreshMetricsInterval=50ms
		refreshPrometheusMetricsInterval=5s secureServing=true certPath= healthChecking=true enablePprof=true v=2 destinationEndpointHintKey=x-up
		destinationEndpointHintMetadataNamespace=lb DestinationEndpointHintMetadataNamespace=lb totalQueuedRequestsMetric=vllm:num_requests_waiting
		kvCacheUsagePercentageMetric=vllm:gpu_cache_usage_perc loraInfoMetric=vllm:lora_requests_info modelServerMetricsPort=0
		modelServerMetricsPath=/metrics modelServerMetricsScheme=http modelServerMetricsHttpsInsecureSkipVerify=true maxRequestBytes=1000`
	newerFlags = `grpc-port=9002 ha-enable-leader-election=true pool-group=inference.networking.k8s.io pool-namespace=n pool-name=p endpoint-selector=app=x
		endpoint-target-ports=8000 disable-endpoint-subset-filter=true refresh-metrics-interval=50ms refresh-prometheus-metrics-interval=5s
		metrics-staleness-threshold=2s tracing=true health-checking=true metrics-port=9090 grpc-health-port=9003 enable-pprof=false cert-path=
		enable-cert-reload=true secure-serving=false metrics-endpoint-auth=false config-file=FILE config-text= v=5 zap-devel=true zap-encoder=json
		zap-log-level=debug zap-stacktrace-level=error zap-time-encoding=iso8601 model-server-metrics-scheme=http model-server-metrics-path=/metrics
		model-server-metrics-port=0 model-server-metrics-https-insecure-skip-verify=true total-queued-requests-metric=x
		total-running-requests-metric=x kv-cache-usage-percentage-metric=x lora-info-metric=x cache-info-metric=x max-request-bytes=1000`
)

// B114: every flag of both generations is taken, alone and all of a generation together,
// with one dash or two. What does nothing is told, once.
func TestB114EveryFlagOfEndpointPickersIsTaken(t *testing.T) {
	file := t.TempDir() + "/epp.yaml"
	if err := os.WriteFile(file, []byte("kind: x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, generation := range []string{olderFlags, newerFlags} {
		var all []string
		for i, f := range strings.Fields(strings.ReplaceAll(generation, "FILE", file)) {
			all = append(all, []string{"-", "--"}[i%2]+f)
			args := []string{all[len(all)-1]}
			if strings.Contains(f, "amespace=n") {
				args = append(args, "--pool-name=p")
			}
			if _, err := parse(args, io.Discard); err != nil {
				t.Errorf("%s: %v", f, err)
			}
		}
		o, err := parse(all, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if o.Pool != "n/p" || o.Listen.ExtProc.MaxRequestBytes != 1000 || o.Listen.HTTP.MaxRequestBytes != 1000 {
			t.Errorf("pool %q, limits %d and %d", o.Pool, o.Listen.ExtProc.MaxRequestBytes, o.Listen.HTTP.MaxRequestBytes)
		}
		var told []string
		for _, n := range o.notes {
			told = append(told, n.flag)
			if n.instead == "" {
				t.Errorf("%s: nothing is said of it", n.flag)
			}
		}
		slices.Sort(told)
		if len(told) < 9 || len(slices.Compact(slices.Clone(told))) != len(told) {
			t.Errorf("it is told of %q", told)
		}
	}
}

// Flags are in both spellings, but for those that only one generation can have.
func TestBothSpellings(t *testing.T) {
	known := map[string]bool{}
	var help strings.Builder
	_, _ = parse([]string{"--help"}, &help)
	for _, m := range regexp.MustCompile(`(?m)^ *--?([A-Za-z0-9-]+)`).FindAllStringSubmatch(help.String(), -1) {
		known[m[1]] = true
	}
	if len(known) < 60 {
		t.Fatalf("%d flags are known: is the help read?\n%s", len(known), help.String())
	}
	upper := regexp.MustCompile(`[A-Z]`)
	for _, f := range strings.Fields(olderFlags) {
		name, _, _ := strings.Cut(f, "=")
		kebab := upper.ReplaceAllStringFunc(name, func(s string) string { return "-" + strings.ToLower(s) })
		if !known[name] || !known[strings.TrimPrefix(kebab, "-")] {
			t.Errorf("%s is not known, or not as %s", name, kebab)
		}
	}
	hyphen := regexp.MustCompile(`-[a-z]`)
	for _, f := range strings.Fields(newerFlags) {
		name, _, _ := strings.Cut(f, "=")
		camel := hyphen.ReplaceAllStringFunc(name, func(s string) string { return strings.ToUpper(s[1:]) })
		if !known[name] || !known[camel] && !strings.HasPrefix(name, "zap-") {
			t.Errorf("%s is not known, or not as %s", name, camel)
		}
	}
}

func TestWhatFlagsDo(t *testing.T) {
	for _, c := range []struct {
		args string
		is   func(o *options) bool
	}{
		{"-v=4", func(o *options) bool { return o.Telemetry.Log.Level == "debug" }},
		{"-v 2", func(o *options) bool { return o.Telemetry.Log.Level == "info" }},
		{"--zap-log-level=error", func(o *options) bool { return o.Telemetry.Log.Level == "error" }},
		{"--zap-log-level=5", func(o *options) bool { return o.Telemetry.Log.Level == "debug" }},
		{"--zap-encoder console", func(o *options) bool { return o.Telemetry.Log.Format == "text" }},
		{"--enable-pprof", func(o *options) bool { return *o.Telemetry.Admin.Pprof }},
		{"--enablePprof=false", func(o *options) bool { return !*o.Telemetry.Admin.Pprof }},
		{"--tracing=false", func(o *options) bool { return o.Telemetry.Tracing.SampleRatio == 0 && len(o.notes) == 0 }},
		{"--tracing", func(o *options) bool { return o.Telemetry.Tracing.SampleRatio > 0 && len(o.notes) == 1 }},
		{"--metrics-staleness-threshold=2s", func(o *options) bool { return o.Roster.StalenessLimit.String() == "2s" }},
		{"--disable-endpoint-subset-filter", func(o *options) bool { return o.Listen.ExtProc.IgnoreSubset }},
		{"--secure-serving=false", func(o *options) bool { return !o.Listen.ExtProc.SecureServing }},
		{"-destinationEndpointHintKey X-Up", func(o *options) bool { return o.Listen.ExtProc.DestinationHeader == "x-up" }},
		{"--grpc-port=7 --set listen.extProc.address=:8", func(o *options) bool { return o.Listen.ExtProc.Address == ":7" }},
		{"--metrics-endpoint-auth=false", func(o *options) bool { return len(o.notes) == 0 }},
	} {
		o, err := parse(strings.Fields(c.args), io.Discard)
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
		} else if !c.is(o) {
			t.Errorf("%s: %+v", c.args, o.Config)
		}
	}
}

func TestFlagsThatAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"-v=high": "want a number", "-v=-1": "want a number", "--grpc-port=0": "want a port", "--grpcPort=x": "want a port", "--maxRequestBytes=0": "above zero",
		"--zap-log-level=loud": "want debug", "--zap-encoder=xml": "want json", "--secure-serving=maybe": "want true or false", "--metrics-staleness-threshold=2": "want a duration",
		"--metrics-endpoint-auth": "asks nobody", "--metricsEndpointAuth=true": "asks nobody", "--no-such-flag": "no-such-flag",
	} {
		if _, err := parse([]string{args}, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
