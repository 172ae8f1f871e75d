package app

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/run"
)

func TestFlagsSayWhereTheConfigurationIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "epp.yaml")
	if err := os.WriteFile(path, []byte("kind: x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		args           []string
		source, reload string
	}{
		{"none", nil, "built-in default", "never: it is not a file"},
		{"file", []string{"-configFile", path}, path, "when the file changes, and on SIGHUP"},
		{"file, once", []string{"--configFile", path, "--configReload=false"}, path, "never: --configReload=false"},
		{"text", []string{"--configText", "kind: x"}, "configText", "never: it is not a file"},
		{"B114 the newer spelling of file", []string{"--config-file=" + path}, path, "when the file changes, and on SIGHUP"},
		{"B114 the newer spelling of text", []string{"--config-text=kind: x"}, "configText", "never: it is not a file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := parse(c.args, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if o.origin.source != c.source || o.origin.words() != c.reload || len(o.origin.text) == 0 {
				t.Errorf("origin %+v", o.origin)
			}
		})
	}
}

func TestFlagFaults(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		want  string
		usage bool
	}{
		"both":                          {[]string{"--configFile", "a", "--configText", "b"}, "both given", true},
		"both, in two spellings":        {[]string{"--config-file", "a", "--configText", "b"}, "both given", true},
		"B124 a file that is not there": {[]string{"--configFile", "/does/not/exist"}, "/does/not/exist", false},
	} {
		_, err := parse(c.args, io.Discard)
		var usage run.UsageError
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &usage) != c.usage {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// B121: what is said last counts: the defaults, the settings file, --set, and then a
// flag of its own. The environment is not asked.
func TestB121Precedence(t *testing.T) {
	settings := filepath.Join(t.TempDir(), "router.yaml")
	if err := os.WriteFile(settings, []byte("pool: file\ndrainDelay: 1s\nscoring: {timeout: 7ms}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("POOL", "environment")
	t.Setenv("POOL_NAME", "environment")
	o, err := parse([]string{"--set", "pool=set", "--set", "scoring.timeout=8ms", "--config", settings}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.Pool != "set" || o.Scoring.Timeout.String() != "8ms" || o.DrainDelay.String() != "1s" || o.Roster.StalenessLimit.String() != "5s" {
		t.Errorf("options %+v", o.Config)
	}
	if o, err = parse([]string{"--pool-name", "flag", "--pool-namespace", "ns", "--set", "pool=set", "--config", settings}, io.Discard); err != nil || o.Pool != "ns/flag" {
		t.Errorf("pool %q, error %v", o.Pool, err)
	}
}
