package mesh

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The bootstrap that is shipped is the one that is measured.
func TestBootstrap(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "envoy", "original-dst.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	with, err := bootstrap(text, EnvoyConfig{Picker: "127.0.0.1:1234"}, 5001, 5002)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := bootstrap(text, EnvoyConfig{Endpoints: []string{"127.0.0.1:1", "127.0.0.1:2"}}, 5001, 5002)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name       string
		text       []byte
		has, lacks []string
	}{
		{"with a picker", with, []string{`"port_value":1234`, `"port_value":5001`, `"port_value":5002`, "ext_proc", "ORIGINAL_DST"}, []string{`"port_value":9002`, `"port_value":10000`}},
		{"alone", alone, []string{`"port_value":1`, `"port_value":2`, `"port_value":5001`, "http_connection_manager"}, []string{"ext_proc", "ORIGINAL_DST", "9002"}},
	} {
		if !json.Valid(tc.text) {
			t.Errorf("%s: not JSON", tc.name)
		}
		for _, s := range tc.has {
			if !strings.Contains(string(tc.text), s) {
				t.Errorf("%s: lacks %s", tc.name, s)
			}
		}
		for _, s := range tc.lacks {
			if strings.Contains(string(tc.text), s) {
				t.Errorf("%s: has %s", tc.name, s)
			}
		}
	}
	if _, err := bootstrap([]byte("static_resources: {listeners: []}"), EnvoyConfig{}, 1, 2); err == nil {
		t.Error("a file of another shape was taken")
	}
}
