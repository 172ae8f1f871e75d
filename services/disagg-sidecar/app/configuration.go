package app

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pointsman/pointsman/internal/kit/run"
)

// maxConfiguration bounds a file of flags: whatever is larger is some other file.
const maxConfiguration = 1 << 20

// notFlags are those that a configuration cannot have: they say where settings come from.
var notFlags = []string{"config", "set", "configuration", "configuration-file"}

// instead are flags that a flag of the command line takes the place of, since they would go
// before it.
var instead = map[string][]string{"inference-pool": {"pool"}, "inference-pool-name": {"pool", "inference-pool"}}

// configuration is a document of flags, by their names.
type configuration struct{ text, file string }

func (c *configuration) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.text, "configuration", "", "flags in a `YAML` mapping, such as {port: 8001, kv-connector: sglang}; the command line goes before")
	fs.StringVar(&c.file, "configuration-file", "", "the same in a `FILE`")
}

// apply sets the flags that the document has and the command line has not.
func (c *configuration) apply(fs *flag.FlagSet) error {
	name, text := "--configuration", c.text
	switch {
	case c.text != "" && c.file != "":
		return run.UsageError{Err: errors.New("--configuration and --configuration-file: give one of both")}
	case c.file != "":
		name = c.file
		var err error
		if text, err = readText(c.file); err != nil {
			return fmt.Errorf("--configuration-file: %w", err)
		}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if doc.Kind == 0 { // empty
		return nil
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return fmt.Errorf("%s: line %d: want a mapping of flags, such as {port: 8001}", name, top.Line)
	}
	given := make(map[string]bool)
	fs.Visit(func(f *flag.Flag) {
		given[f.Name] = true
		for _, other := range instead[f.Name] {
			given[other] = true
		}
	})
	seen := make(map[string]bool)
	var faults []error
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		text, ok := scalars(value)
		switch {
		case fs.Lookup(key.Value) == nil || slices.Contains(notFlags, key.Value):
			faults = append(faults, fmt.Errorf("%s: line %d: %s: there is no such flag; --help lists them", name, key.Line, key.Value))
		case seen[key.Value]:
			faults = append(faults, fmt.Errorf("%s: line %d: %s: is there twice", name, key.Line, key.Value))
		case !ok:
			faults = append(faults, fmt.Errorf("%s: line %d: %s: want one value, or a list of values", name, value.Line, key.Value))
		case given[key.Value]:
		default:
			if err := fs.Set(key.Value, text); err != nil {
				faults = append(faults, fmt.Errorf("%s: line %d: %s: %w", name, value.Line, key.Value, err))
			}
		}
		seen[key.Value] = true
	}
	return errors.Join(faults...)
}

// scalars returns a value as the command line has it: the elements of a list are joined by
// commas.
func scalars(n *yaml.Node) (string, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value, n.Tag != "!!null"
	case yaml.SequenceNode:
		var all []string
		for _, e := range n.Content {
			if e.Kind != yaml.ScalarNode {
				return "", false
			}
			all = append(all, e.Value)
		}
		return strings.Join(all, ","), true
	}
	return "", false
}

func readText(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxConfiguration+1))
	switch {
	case err != nil:
		return "", err
	case len(text) > maxConfiguration:
		return "", fmt.Errorf("%s: larger than %d MiB, which no configuration is", file, maxConfiguration>>20)
	}
	return string(text), nil
}
