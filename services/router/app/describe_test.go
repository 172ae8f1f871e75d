package app

import (
	"strings"
	"testing"

	"github.com/pointsman/pointsman/services/router/internal/admission"
	"github.com/pointsman/pointsman/services/router/internal/prompt"
)

type header map[string]string

func (h header) Get(name string) string { return h[name] }

// A request that a caller describes is taken as the HTTP front takes it: the objective
// makes its priority, and a model that is rewritten is the one that it is routed by.
func TestDescribedRequestsFollowThePolicy(t *testing.T) {
	parser, err := prompt.NewParser(prompt.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	gate := admission.NewGate(nil)
	gate.Use(&admission.Policy{
		Objectives: []admission.Objective{{Name: "batch", Priority: -2}},
		Rules:      []admission.Rule{{Models: []string{"alias"}, Targets: []admission.Target{{Model: "real"}}}},
	})
	d := describer{parser, gate}
	body := func(model string) []byte {
		return []byte(`{"model":"` + model + `","prompt":"` + strings.Repeat("z", 128) + `"}`)
	}
	req, done, err := d.describe("", "/v1/completions", header{admission.HeaderObjective: "batch"}, body("alias"))
	if err != nil {
		t.Fatal(err)
	}
	if req.Model != "real" || req.ClientModel != "alias" || req.Priority != -2 || req.ID == "" {
		t.Errorf("%+v", req)
	}
	direct, doneToo, err := d.describe("id", "/v1/completions", header{}, body("real"))
	if err != nil {
		t.Fatal(err)
	}
	if direct.ClientModel != "" || direct.Priority != 0 {
		t.Errorf("%+v", direct)
	}
	if a, b := req.Prompt.Blocks(64, 9), direct.Prompt.Blocks(64, 9); len(a) != 2 || a[1] != b[1] {
		t.Errorf("the same prompt for the same model has the hashes %x and %x", a, b)
	}
	done()
	doneToo()
	if _, _, err := d.describe("", "/v2/models/alias/generate", header{}, []byte(`{"text_input":"x"}`)); err == nil || !strings.Contains(err.Error(), `"real"`) {
		t.Errorf("a model that cannot be rewritten: error %v", err)
	}
}
