package conf_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

func TestSecretIsNeverPrinted(t *testing.T) {
	type holder struct {
		Pass conf.Secret `yaml:"pass" json:"pass"`
		Map  map[string]conf.Secret
	}
	h := holder{Pass: "hunter2", Map: map[string]conf.Secret{"a": "hunter2"}}
	printed := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%10s"} {
		printed["fmt "+verb] = fmt.Sprintf(verb, h.Pass)
		printed["fmt struct "+verb] = fmt.Sprintf(verb, h)
	}
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	printed["JSON"] = string(text)
	if text, err = yaml.Marshal(h); err != nil {
		t.Fatal(err)
	}
	printed["YAML"] = string(text)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", h.Pass, "holder", h)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", h.Pass, "holder", h)
	printed["slog"] = log.String()
	printed["error"] = fmt.Errorf("dial with %v: %w", h.Pass, fmt.Errorf("%s", h.Pass)).Error()
	for how, out := range printed {
		if strings.Contains(out, "hunter2") || strings.Contains(out, fmt.Sprintf("%x", "hunter2")) || !strings.Contains(out, "[secret]") {
			t.Errorf("%s prints %s, want [secret]", how, out)
		}
	}
	if string(h.Pass) != "hunter2" {
		t.Error("the secret cannot be used")
	}
	if got := fmt.Sprint(conf.Secret("")); got != "" {
		t.Errorf("the empty secret prints %q, want nothing: it must be seen that there is none", got)
	}
}

func TestDurationRoundTrip(t *testing.T) {
	for _, want := range []time.Duration{0, time.Nanosecond, 50 * time.Millisecond, 90 * time.Second, -time.Hour} {
		text, err := yaml.Marshal(map[string]conf.Duration{"d": conf.Duration(want)})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			D conf.Duration `yaml:"d"`
		}
		if err := conf.Parse("x.yaml", text, &got); err != nil {
			t.Fatal(err)
		}
		if got.D.D() != want {
			t.Errorf("%s reads as %v, want %v", text, got.D, want)
		}
	}
}
