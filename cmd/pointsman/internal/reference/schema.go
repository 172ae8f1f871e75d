package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	router "github.com/pointsman/pointsman/services/router/app"
)

// object is a JSON object with its keys in the order of their names.
type object map[string]any

// schemaComment is what a schema cannot say.
const schemaComment = "Says what the structure, the plug-in types and the values of their parameters may be. Whether names are unique and references lead somewhere, " +
	"which parameters exclude each other, and how many pickers and handlers there may be is checked by `pointsman config check`. " +
	"Names of parameters are taken in any case, all other names as they are written here. Plug-in types that are not listed are let through: a scorer service may have them."

// Schema returns a JSON Schema (2020-12) of the EndpointPickerConfig, for editors. What
// the loader takes is valid, and what it refuses for its structure, for a name or for
// the kind or range of a value is not. Plug-in types that are not known here are let
// through, as somebody may serve them.
func (c *Catalogue) Schema() ([]byte, error) {
	plugin, err := c.pluginSchema()
	if err != nil {
		return nil, err
	}
	detector, err := c.detectorSchema()
	if err != nil {
		return nil, err
	}
	properties := object{
		"apiVersion": object{"enum": router.APIVersions()},
		"kind":       object{"const": "EndpointPickerConfig"},
		"plugins": object{
			"description": "The plug-ins to be made, with their parameters.",
			"type":        []string{"array", "null"}, "items": object{"$ref": "#/$defs/plugin"},
		},
		"schedulingProfiles": object{
			"description": "Which plug-ins decide on a request. None: one profile of all of them.",
			"type":        []string{"array", "null"}, "items": object{"$ref": "#/$defs/profile"},
		},
		"featureGates": object{
			"description": "Accepted; they change nothing.",
			"type":        []string{"array", "null"}, "items": object{"enum": append([]any{nil, ""}, anyOf(router.FeatureGates())...)},
		},
		"saturationDetector": detector,
		"parser": object{
			"description": "Accepted; bodies are read by their path.",
			"type":        []string{"object", "null"}, "additionalProperties": false, "properties": object{"pluginRef": object{"$ref": "#/$defs/pluginRef"}},
		},
		"requestHandler": section("Accepted; bodies are read by their path."),
		"dataLayer": object{
			"description": "Accepted; the metrics-collector is the data layer.",
			"type":        []string{"object", "null"}, "additionalProperties": false,
			"properties": object{"injectDefaults": references(), "sources": references(), "discovery": references()},
		},
		"data":        section("Accepted; the metrics-collector is the data layer."),
		"flowControl": object{"description": "Ignored: there is no queue of the router's own yet.", "type": []string{"object", "null"}},
	}
	for _, name := range router.ConfigSections() {
		if properties[name] == nil {
			return nil, fmt.Errorf("section %s has no schema", name)
		}
	}
	schema := object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "EndpointPickerConfig", "$comment": schemaComment, "type": "object",
		"required": []string{"apiVersion", "kind"}, "additionalProperties": false,
		"properties": properties,
		"$defs": object{
			"plugin": plugin, "profile": profileSchema(), "tree": treeSchema(), "treeNode": treeNodeSchema(),
			"pluginRef": object{"type": "string", "minLength": 1, "description": "Name of a plug-in."},
			"references": object{
				"description":          "Anything, in which every pluginRef names a plug-in.",
				"properties":           object{"pluginRef": object{"$ref": "#/$defs/pluginRef"}},
				"additionalProperties": references(), "items": references(),
			},
		},
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(schema)
	return b.Bytes(), err
}

func anyOf[T any](all []T) []any {
	out := make([]any, len(all))
	for i, v := range all {
		out[i] = v
	}
	return out
}

// references is a value in which plug-ins may be named.
func references() object { return object{"$ref": "#/$defs/references"} }

// section is one that is accepted whatever it holds.
func section(description string) object {
	return object{"description": description, "type": []string{"object", "null"}, "$ref": "#/$defs/references"}
}

func profileSchema() object {
	return object{
		"type": "object", "required": []string{"name", "plugins"}, "additionalProperties": false,
		"properties": object{
			"name": object{"type": "string", "minLength": 1},
			"plugins": object{"type": "array", "minItems": 1, "items": object{
				"type": "object", "required": []string{"pluginRef"}, "additionalProperties": false,
				"properties": object{
					"pluginRef": object{"$ref": "#/$defs/pluginRef"},
					"weight":    object{"type": []string{"number", "null"}, "minimum": -1e12, "maximum": 1e12, "default": 1, "description": "Only scorers have one."},
				},
			}},
		},
	}
}

// detectorSchema is the section that names a detector or has thresholds of its own.
func (c *Catalogue) detectorSchema() (object, error) {
	properties, thresholds := object{"pluginRef": object{"type": []string{"string", "null"}, "minLength": 1, "description": "Name of a detector among the plug-ins."}}, object{}
	p, _ := c.Plugin("utilization-detector", "")
	for _, param := range p.Parameters {
		if param.Name == "headroom" {
			continue // of filters
		}
		schema, err := param.value()
		if err != nil {
			return nil, err
		}
		properties[param.Name], thresholds[param.Name] = schema, object{"type": "null"}
	}
	return object{
		"description": "What says whether endpoints are full: a plug-in, or thresholds.",
		"type":        []string{"object", "null"}, "additionalProperties": false, "properties": properties,
		"if":   object{"required": []string{"pluginRef"}, "properties": object{"pluginRef": object{"type": "string"}}},
		"then": object{"properties": thresholds},
	}, nil
}

func (c *Catalogue) pluginSchema() (object, error) {
	var names []string
	var described, conditions []object
	for _, p := range c.plugins {
		for _, name := range append([]string{p.Type}, p.Aliases...) {
			if slices.Contains(names, name) {
				continue // a type of the router and the scorer that goes with it
			}
			names = append(names, name)
			described = append(described, object{"const": name, "description": p.Summary})
			if p.Role == builtInRole && len(p.Parameters) == 0 {
				continue // whatever is given has no effect
			}
			then, err := p.parametersSchema()
			if err != nil {
				return nil, err
			}
			conditions = append(conditions, object{
				"if":   object{"properties": object{"type": object{"const": name}}, "required": []string{"type"}},
				"then": then,
			})
		}
	}
	return object{
		"type": "object", "required": []string{"type"}, "additionalProperties": false,
		"properties": object{
			"name":       object{"type": []string{"string", "null"}, "description": "What profiles call it. Default: its type."},
			"type":       object{"type": "string", "minLength": 1, "anyOf": append(described, object{"minLength": 1})},
			"parameters": object{"type": []string{"object", "null"}},
		},
		"allOf": conditions,
	}, nil
}
