package reference

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// anyCase is a pattern of a name in any case.
func anyCase(name string) string {
	var b strings.Builder
	b.WriteByte('^')
	for _, r := range name {
		if lower, upper := unicode.ToLower(r), unicode.ToUpper(r); lower != upper {
			fmt.Fprintf(&b, "[%c%c]", lower, upper)
			continue
		}
		b.WriteString(regexp.QuoteMeta(string(r)))
	}
	b.WriteByte('$')
	return b.String()
}

// absent is true of an object without the field, in any case, or with null for it.
func absent(name string) object {
	return object{"patternProperties": object{anyCase(name): object{"type": "null"}}}
}

func present(name string) object { return object{"not": absent(name)} }

// fields is an object of fields whose names are taken in any case. Names and what is
// said of them are in properties, where editors look; what holds is in patterns.
func fields(described, schemas map[string]object) object {
	patterns := object{}
	for name, s := range schemas {
		patterns[anyCase(name)] = s
	}
	return object{"additionalProperties": false, "properties": described, "patternProperties": patterns}
}

// value is the schema of the parameter's value; null is as if it were absent.
func (p Parameter) value() (object, error) {
	s := object{}
	if err := json.Unmarshal(p.schema, &s); err != nil {
		return nil, fmt.Errorf("parameter %s: %w", p.Name, err)
	}
	if p.Required {
		return s, nil
	}
	switch kind := s["type"].(type) {
	case string:
		s["type"] = []any{kind, "null"}
	case []any:
		s["type"] = append(kind, "null")
	}
	if choices, ok := s["enum"].([]any); ok {
		s["enum"] = append(choices, nil)
	}
	if s["$ref"] != nil {
		return object{"anyOf": []any{s, object{"type": "null"}}}, nil
	}
	return s, nil
}

// parametersSchema is what holds for an instance of the type.
func (p Plugin) parametersSchema() (object, error) {
	described, schemas := map[string]object{}, map[string]object{}
	parameters := object{}
	var required []object
	for _, param := range p.Parameters {
		s, err := param.value()
		if err != nil {
			return nil, err
		}
		schemas[param.Name] = s
		d := object{"description": param.Summary}
		if param.Default != "" {
			d["default"] = json.RawMessage(param.Default)
		}
		described[param.Name] = d
		if param.Required {
			required = append(required, present(param.Name))
		}
	}
	for key, v := range fields(described, schemas) {
		parameters[key] = v
	}
	then := object{"properties": object{"parameters": parameters}}
	if required != nil {
		parameters["type"], parameters["allOf"] = "object", required
		then["required"] = []string{"parameters"}
	}
	return then, nil
}

// treeSchema is a decision tree in a decision tree, and treeNodeSchema what it consists
// of. Names are taken in any case, as those of parameters.
func treeSchema() object {
	node := object{"anyOf": []object{{"$ref": "#/$defs/treeNode"}, {"type": "null"}}}
	s := fields(
		map[string]object{
			"current": {"description": "The filter to run first."}, "nextOnSuccess": {"description": "What to run if it left somebody."},
			"nextOnFailure":          {"description": "What to run if it left nobody."},
			"nextOnSuccessOrFailure": {"description": "What to run in the cases for which the other two say nothing."},
		},
		map[string]object{"current": node, "nextOnSuccess": node, "nextOnFailure": node, "nextOnSuccessOrFailure": node},
	)
	s["type"], s["allOf"] = "object", []object{present("current")}
	return s
}

func treeNodeSchema() object {
	s := fields(
		map[string]object{"pluginRef": {"description": "Name of a filter that is declared before."}, "decisionTree": {"description": "Another tree."}},
		map[string]object{
			"pluginRef":    {"anyOf": []object{{"$ref": "#/$defs/pluginRef"}, {"type": "null"}}},
			"decisionTree": {"anyOf": []object{{"$ref": "#/$defs/tree"}, {"type": "null"}}},
		},
	)
	s["type"], s["oneOf"] = "object", []object{present("pluginRef"), present("decisionTree")}
	return s
}
