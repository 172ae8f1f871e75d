package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

// Servers that SGLang runs for decoding alone cannot prefill. That the connector is theirs
// is known when they are: the warning comes then, once per configuration, and whichever
// comes first.
func TestWarningOfSGLang(t *testing.T) {
	const fails = ", onPrefillFailure: [RetryOther, Fail]"
	for _, c := range []struct {
		name, decider, policy, engine string
		role                          string
		want                          int
	}{
		{"a failure falls to decoding", "always-disagg-pd-decider", "", "sglang", "decode", 1},
		{"a decider declines", "prefix-based-pd-decider", fails, "sglang", "decode", 1},
		{"nobody decodes alone", "always-disagg-pd-decider", fails, "sglang", "decode", 0},
		{"the configuration has warned", "always-disagg-pd-decider", ", connector: sglang", "sglang", "decode", 0},
		{"vLLM prefills everywhere", "always-disagg-pd-decider", "", "vllm", "decode", 0},
		{"a server that does both", "always-disagg-pd-decider", "", "sglang", "prefill-decode", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := place(t, configured("always-disagg-pd-decider", fails))
			var out bytes.Buffer
			s.engines.log = slog.New(slog.NewTextHandler(&out, nil))
			table, err := roster.NewTable([]roster.Endpoint{
				{ID: "d", Host: "127.0.0.1", Port: 1, Engine: c.engine, Labels: []roster.Label{{Name: "llm-d.ai/role", Value: c.role}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			warned := func() int { return strings.Count(out.String(), "SGLang") }

			s.roster.SetTable(table)
			s.use(configured(c.decider, c.policy))
			if got := warned(); got != c.want {
				t.Errorf("%d warnings with a new configuration, want %d: %s", got, c.want, out.String())
			}
			s.roster.SetTable(&roster.Table{})
			s.roster.SetTable(table)
			if got := warned(); got != c.want {
				t.Errorf("%d warnings when the endpoints come again, want %d", got, c.want)
			}
			s.use(configured("always-disagg-pd-decider", fails))
			s.roster.SetTable(&roster.Table{})
			s.use(configured(c.decider, c.policy))
			s.roster.SetTable(table)
			if got := warned(); got != 2*c.want {
				t.Errorf("%d warnings after a configuration before its endpoints, want %d", got, 2*c.want)
			}
		})
	}
}
