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
	described, err := d.describe("", "/v1/completions", header{admission.HeaderObjective: "batch"}, body("alias"))
	if err != nil {
		t.Fatal(err)
	}
	req := described.Request
	if req.Model != "real" || req.ClientModel != "alias" || req.Priority != -2 || req.ID == "" {
		t.Errorf("%+v", req)
	}
	another, err := d.describe("id", "/v1/completions", header{}, body("real"))
	if err != nil {
		t.Fatal(err)
	}
	direct := another.Request
	if direct.ClientModel != "" || direct.Priority != 0 {
		t.Errorf("%+v", direct)
	}
	if a, b := req.Prompt.Blocks(64, 9), direct.Prompt.Blocks(64, 9); len(a) != 2 || a[1] != b[1] {
		t.Errorf("the same prompt for the same model has the hashes %x and %x", a, b)
	}
	described.Done()
	another.Done()
	if _, err := d.describe("", "/v2/models/alias/generate", header{}, []byte(`{"text_input":"x"}`)); err == nil || !strings.Contains(err.Error(), `"real"`) {
		t.Errorf("a model that cannot be rewritten: error %v", err)
	}
}

func TestABodyThatIsNotUnderstood(t *testing.T) {
	parser, err := prompt.NewParser(prompt.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	d := describer{parser, admission.NewGate(nil)}
	for _, c := range []struct{ name, path, body, want string }{
		{"junk", "", "hello", "not JSON that can be read"},
		{"nothing", "", "", "no prompt was found in it"},
		{"JSON without a prompt", "", `{"model":"m"}`, "no prompt was found in it"},
		{"another API", "/v1/files", `{"a":1}`, "no prompt was found in it"},
		{"a prompt", "", `{"model":"m","prompt":"hello"}`, ""},
		{"a chat", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hello"}]}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := d.describe("", c.path, header{}, []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			defer got.Done()
			if got.NotUnderstood != c.want {
				t.Errorf("%q, want %q", got.NotUnderstood, c.want)
			}
		})
	}
}
