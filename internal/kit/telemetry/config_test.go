package telemetry_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/telemetry"
)

func TestConfigValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*telemetry.Config)
		want   string
	}{
		{"the defaults", func(*telemetry.Config) {}, ""},
		{"admin off", func(c *telemetry.Config) { c.Admin.Address = "" }, ""},
		{"OTLP as HOST:PORT", func(c *telemetry.Config) { c.Tracing.OTLPEndpoint = "collector:4317" }, ""},
		{"OTLP as URL", func(c *telemetry.Config) { c.Tracing.OTLPEndpoint = "https://collector:4317" }, ""},
		{"OTLP without port", func(c *telemetry.Config) { c.Tracing.OTLPEndpoint = "collector" },
			`tracing.otlpEndpoint: must be HOST:PORT, http://HOST:PORT or https://HOST:PORT, not "collector"`},
		{"OTLP over something else", func(c *telemetry.Config) { c.Tracing.OTLPEndpoint = "ftp://collector:21" },
			`tracing.otlpEndpoint: must be HOST:PORT, http://HOST:PORT or https://HOST:PORT, not "ftp://collector:21"`},
		{"ratio that is no number", func(c *telemetry.Config) { c.Tracing.SampleRatio = math.NaN() },
			"tracing.sampleRatio: must be from 0 to 1, not NaN"},
		{"all at once", func(c *telemetry.Config) {
			c.Log = telemetry.LogConfig{Level: "loud", Format: "xml"}
			c.Admin.Address = "9090"
			c.Tracing.SampleRatio = 2
		}, `log.level: must be debug, info, warn or error, not "loud"
log.format: must be text or json, not "xml"
admin.address: must be HOST:PORT or empty (off), not "9090"
tracing.sampleRatio: must be from 0 to 1, not 2`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := telemetry.DefaultConfig()
			tt.change(&cfg)
			got := ""
			if err := cfg.Validate(); err != nil {
				got = err.Error()
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("Validate (-want +got):\n%s", d)
			}
			if _, err := telemetry.New("router", "", cfg, nil); (err != nil) != (tt.want != "") {
				t.Errorf("New = %v, want it to refuse exactly what Validate does", err)
			}
		})
	}
}
