package reference

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/cmd/pointsman/internal/knobs"
	"github.com/pointsman/pointsman/internal/kit/bus"
	"github.com/pointsman/pointsman/internal/kit/rpc"
	"github.com/pointsman/pointsman/internal/kit/scorersvc"
	"github.com/pointsman/pointsman/internal/kit/telemetry"
	collector "github.com/pointsman/pointsman/services/metrics-collector/app"
	prefixindexer "github.com/pointsman/pointsman/services/prefix-indexer/app"
	router "github.com/pointsman/pointsman/services/router/app"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

// root is the repository.
var root = filepath.Join("..", "..", "..", "..")

// Titles of what is listed once for all services.
const (
	observing = "Log, admin port and traces"
	natsTitle = "NATS"
	tlsTitle  = "TLS"
)

func newLister() *knobs.Lister {
	return &knobs.Lister{
		Comments: knobs.NewComments(root, "github.com/pointsman/pointsman"),
		Fold: map[reflect.Type]string{
			reflect.TypeFor[telemetry.Config](): observing, reflect.TypeFor[bus.Config](): natsTitle, reflect.TypeFor[rpc.TLSConfig](): tlsTitle,
		},
	}
}

// services are the settings of all services, as they stand on the page.
func services(t *testing.T) []Service {
	t.Helper()
	list := newLister()
	var out []Service
	for _, s := range []struct {
		title, intro string
		defaults     any
	}{
		{"Settings of the router", "Given with `--config FILE`, or one by one with `--set key=value`.", router.DefaultConfig()},
		{"Settings of metrics-collector", "Given as the router's.", collector.DefaultConfig()},
		{"Settings of scorer-queue and scorer-kv", "Given as the router's.", scorersvc.DefaultConfig()},
		{"Settings of prefix-indexer", "Given as the router's.", prefixindexer.DefaultConfig()},
		{observing, "At the top level in the settings of every service.", telemetry.DefaultConfig()},
		{natsTitle, "Below `nats` in the settings of every service.", bus.DefaultConfig()},
		{tlsTitle, "Below every key `tls`.", rpc.TLSConfig{}},
	} {
		ks, err := list.List(s.defaults)
		if err != nil {
			t.Error(err)
		}
		out = append(out, Service{s.title, s.intro, ks})
	}
	return out
}

func routerFlags(t *testing.T) string {
	t.Helper()
	var help bytes.Buffer
	if err := router.Run(t.Context(), []string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	return help.String()
}

// The committed page is what the code says.
func TestPageIsUpToDate(t *testing.T) {
	c, err := NewCatalogue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := c.Page(routerFlags(t), services(t))
	path := filepath.Join(root, "docs", "configuration.md")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil { //nolint:gosec // for everybody to read
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("docs/configuration.md is not what the code says; make docs:\n%s", d)
	}
}
