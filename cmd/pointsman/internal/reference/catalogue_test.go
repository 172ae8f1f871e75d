package reference

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func catalogue(t *testing.T) *Catalogue {
	t.Helper()
	c, err := NewCatalogue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Everything that can be configured says what it is, in sentences.
func TestEverythingIsDescribed(t *testing.T) {
	services := map[string]int{}
	for _, p := range catalogue(t).Plugins() {
		services[p.Service]++
		if p.Type == "" || p.Role == "" || !strings.HasSuffix(p.Summary, ".") {
			t.Errorf("%+v", p)
		}
		for _, param := range p.Parameters {
			if param.Name == "" || !strings.HasSuffix(param.Summary, ".") || !json.Valid(param.schema) {
				t.Errorf("%s: parameter %+v", p.Type, param)
			}
		}
	}
	for _, s := range []string{"", "scorer-queue", "scorer-kv", "prefix-indexer"} {
		if services[s] == 0 {
			t.Errorf("no types of service %q", s)
		}
	}
}

func TestParagraph(t *testing.T) {
	c := catalogue(t)
	p, ok := c.Plugin("low-queue-filter", "")
	if !ok {
		t.Fatal("low-queue-filter is not there")
	}
	for want, values := range map[string]map[string]string{"threshold is 128: most": nil, "threshold is 7: most": {"Threshold": "7"}} {
		if got := p.Paragraph(values); !strings.Contains(got, want) || !strings.HasPrefix(got, p.Summary) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if p, ok := c.Plugin("kv-cache-utilization-scorer", "scorer-kv"); !ok || p.Type != "kv-cache-scorer" || p.Where() != "scorer-kv" {
		t.Errorf("alias: %+v", p)
	}
	if p, ok := c.Plugin("low-queue-filter", "scorer-kv"); ok {
		t.Errorf("found %+v in a service that lacks it", p)
	}
}

func TestSchemaParameters(t *testing.T) {
	got, err := schemaParameters(`{"properties":{"z":{"type":"integer","minimum":1,"default":64,"description":"Z."},"a":{"enum":["x",2]},"m":{"type":"number","exclusiveMinimum":0,"maximum":1}}}`)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, p := range got {
		lines = append(lines, p.Name+"|"+p.Default+"|"+p.Range+"|"+p.Summary)
	}
	if d := cmp.Diff([]string{"z|64|whole number, at least 1|Z.", `a||one of "x", 2|`, "m||number, above 0, at most 1|"}, lines); d != "" {
		t.Error(d)
	}
	for _, empty := range []string{"", "{}"} {
		if got, err := schemaParameters(empty); err != nil || got != nil {
			t.Errorf("%q: %v, error %v", empty, got, err)
		}
	}
	if _, err := localParameter("a", 5, "A.", "{"); err == nil {
		t.Error("a schema that is no JSON was taken")
	}
	for _, bad := range []string{"x", `{"properties":[1]}`, `{"properties":{"a":5}}`} {
		if _, err := schemaParameters(bad); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
