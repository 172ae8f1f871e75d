package up

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/pointsman/pointsman/sim/modelserver"
)

// apart is the configuration with a profile for each role.
//
//go:embed roles.yaml
var apart string

// role is what a model server does for others: the last ones prefill. Empty if all do
// everything.
func (c *Config) role(i int) string {
	switch {
	case c.Prefill == 0:
		return ""
	case i >= c.Servers-c.Prefill:
		return "prefill"
	}
	return "decode"
}

// labels are those of a model server, as YAML.
func (c *Config) labels(i int) string {
	if role := c.role(i); role != "" {
		return fmt.Sprintf("{zone: %s, llm-d.ai/role: %s}", zone(i), role)
	}
	return fmt.Sprintf("{zone: %s}", zone(i))
}

// transfer is how the model servers hand each other prompts.
func (c *Config) transfer() modelserver.Transfer {
	t := modelserver.DefaultTransfer()
	if c.Prefill > 0 {
		t.Connector = modelserver.NIXL
	}
	return t
}

// example is a request to try: a prompt that is prefilled elsewhere the first time, if
// servers have roles.
func (c *Config) example(url string) string {
	if c.Prefill == 0 {
		return fmt.Sprintf(`curl %s/v1/chat/completions -d '{"model":"%s","messages":[{"role":"user","content":"Hello"}]}'`, url, c.Model)
	}
	return strings.Join([]string{
		fmt.Sprintf(`curl %s/v1/completions -d '{"model":"%s","max_tokens":20,"prompt":"'"$(seq -s ' ' 2000)"'"}'`, url, c.Model),
		"  # its prompt is prefilled by one server and decoded by another, but not the second time, when it is cached",
	}, "\n")
}

// suffix is a word after two spaces.
func suffix(word string) string {
	if word == "" {
		return ""
	}
	return "  " + word
}
