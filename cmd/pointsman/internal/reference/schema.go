package reference

import (
	"bytes"
	"encoding/json"
	"slices"

	router "github.com/pointsman/pointsman/services/router/app"
)

// object is a JSON object with its keys in the order of their names.
type object map[string]any

// Schema returns a JSON Schema (2020-12) of the EndpointPickerConfig, for editors.
// Parameters are written as documented: the loader takes their names in any case.
// Plug-in types that are not known here are let through, as somebody may serve them.
func (c *Catalogue) Schema() ([]byte, error) {
	properties := object{
		"apiVersion": object{"enum": []string{"inference.networking.x-k8s.io/v1alpha1", "llm-d.ai/v1alpha1"}},
		"kind":       object{"const": "EndpointPickerConfig"},
		"plugins": object{
			"description": "The plug-ins to be made, with their parameters.",
			"type":        []string{"array", "null"}, "items": object{"$ref": "#/$defs/plugin"},
		},
		"schedulingProfiles": object{
			"description": "Which plug-ins decide on a request. None: one profile of all of them.",
			"type":        []string{"array", "null"}, "items": object{"$ref": "#/$defs/profile"},
		},
	}
	for _, s := range router.ConfigSections() {
		if properties[s] == nil {
			properties[s] = object{"type": []string{"object", "array", "null"}}
		}
	}
	schema := object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "EndpointPickerConfig", "type": "object",
		"required": []string{"apiVersion", "kind"}, "additionalProperties": false, "properties": properties,
		"$defs": object{
			"plugin": c.pluginSchema(),
			"profile": object{
				"type": "object", "required": []string{"name", "plugins"}, "additionalProperties": false,
				"properties": object{
					"name": object{"type": "string", "minLength": 1},
					"plugins": object{"type": "array", "minItems": 1, "items": object{
						"type": "object", "required": []string{"pluginRef"}, "additionalProperties": false,
						"properties": object{
							"pluginRef": object{"type": "string", "minLength": 1, "description": "Name of a plug-in."},
							"weight":    object{"type": []string{"number", "null"}, "default": 1, "description": "Only scorers have one."},
						},
					}},
				},
			},
		},
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(schema)
	return b.Bytes(), err
}

func (c *Catalogue) pluginSchema() object {
	var names []string
	var described, conditions []object
	for _, p := range c.plugins {
		for _, name := range append([]string{p.Type}, p.Aliases...) {
			if slices.Contains(names, name) {
				continue // a type of the router and the scorer that goes with it
			}
			names = append(names, name)
			described = append(described, object{"const": name, "description": p.Summary})
			conditions = append(conditions, object{
				"if":   object{"properties": object{"type": object{"const": name}}, "required": []string{"type"}},
				"then": object{"properties": object{"parameters": parametersSchema(p.Parameters)}},
			})
		}
	}
	return object{
		"type": "object", "required": []string{"type"}, "additionalProperties": false,
		"properties": object{
			"name":       object{"type": "string", "description": "What profiles call it. Default: its type."},
			"type":       object{"anyOf": append([]object{{"type": "string", "minLength": 1}}, described...)},
			"parameters": object{"type": []string{"object", "null"}},
		},
		"allOf": conditions,
	}
}

func parametersSchema(parameters []Parameter) object {
	properties := object{}
	for _, p := range parameters {
		properties[p.Name] = json.RawMessage(p.schema)
	}
	return object{"additionalProperties": false, "properties": properties}
}
