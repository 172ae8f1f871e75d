package up

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The router's own settings add scorers to those that come up by themselves.
func TestScorersOfTheSettingsAreAdded(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no file":       {"", `[{"name":"a","target":"at a"},{"name":"b","target":"at b"}]`},
		"no scorers":    {"pool: x\n", `[{"name":"a","target":"at a"},{"name":"b","target":"at b"}]`},
		"one more":      {"scorers: [{name: zone, target: '127.0.0.1:9200', timeout: 5ms}]\n", `[{"name":"a","target":"at a"},{"name":"b","target":"at b"},{"name":"zone","target":"127.0.0.1:9200","timeout":"5ms"}]`},
		"a built-in":    {"scorers: [{name: b, timeout: 5ms}]\n", `[{"name":"a","target":"at a"},{"name":"b","target":"at b","timeout":"5ms"}]`},
		"elsewhere":     {"scorers: [{name: b, target: there}]\n", `[{"name":"a","target":"at a"},{"name":"b","target":"there"}]`},
		"no YAML":       {"scorers: [\n", `[{"name":"a","target":"at a"},{"name":"b","target":"at b"}]`},
		"a list":        {"[1]\n", `[{"name":"a","target":"at a"},{"name":"b","target":"at b"}]`},
		"keys that are": {"scorers: [{name: b, tls: {1: x}}]\n", `[{"name":"a","target":"at a"},{"name":"b","target":"at b"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			path := ""
			if tc.text != "" {
				path = filepath.Join(t.TempDir(), "router.yaml")
				if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := scorers(path, []string{"a", "b"}, func(name string) string { return "at " + name })
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
