package telemetry

import (
	"encoding/json"
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// Build says which program this is. It is the page /buildinfo and the labels of pointsman_build_info.
type Build struct {
	Service   string `json:"service"`
	Version   string `json:"version"`
	Revision  string `json:"revision,omitempty"` // of version control, where the binary was built from a checkout
	Modified  bool   `json:"modified,omitempty"` // the checkout had changes
	Time      string `json:"time,omitempty"`     // of the revision, RFC 3339
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"` // os/architecture
}

// buildVersion is set by the linker, where a release is built:
// -ldflags "-X github.com/pointsman/pointsman/internal/kit/telemetry.buildVersion=v1.2.3".
var buildVersion string

func readBuild(service, version string) Build {
	b := Build{
		Service:   service,
		Version:   version,
		GoVersion: runtime.Version(),
		Platform:  runtime.GOOS + "/" + runtime.GOARCH,
	}
	if b.Version == "" {
		b.Version = buildVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "vcs.time":
			b.Time = s.Value
		}
	}
	return b
}

// Build returns what is known about the program.
func (t *Telemetry) Build() Build { return t.build }

func (b Build) collector() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pointsman_build_info",
		Help: "1; the labels say which program this is.",
		ConstLabels: prometheus.Labels{
			"service": b.Service, "version": b.Version, "revision": b.Revision, "go_version": b.GoVersion,
		},
	}, func() float64 { return 1 })
}

func (b Build) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(b) // the client is gone if this fails
}
