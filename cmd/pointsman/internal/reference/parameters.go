package reference

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// localParameter is a parameter of one of the router's own types. schema is what is
// known of its value besides: a JSON Schema, or nothing.
func localParameter(name string, otherwise any, summary, schema string) (Parameter, error) {
	whole := map[string]any{"description": summary}
	if otherwise != nil {
		whole["default"] = otherwise
		switch otherwise.(type) {
		case int:
			whole["type"] = "integer"
		case float64:
			whole["type"] = "number"
		case bool:
			whole["type"] = "boolean"
		case string:
			whole["type"] = "string"
		}
	}
	if schema != "" {
		if err := json.Unmarshal([]byte(schema), &whole); err != nil {
			return Parameter{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return readParameter(name, []byte(text(whole)))
}

// readParameter reads a parameter's JSON Schema.
func readParameter(name string, schema []byte) (Parameter, error) {
	var s property
	if err := json.Unmarshal(schema, &s); err != nil {
		return Parameter{}, fmt.Errorf("%s: %w", name, err)
	}
	return Parameter{Name: name, Default: string(s.Default), Range: s.words(), Summary: s.Description, schema: schema}, nil
}

// schemaParameters reads the properties of a JSON Schema, in their order. Empty: none.
func schemaParameters(schema string) ([]Parameter, error) {
	if strings.TrimSpace(schema) == "" {
		return nil, nil
	}
	var whole struct {
		Properties json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal([]byte(schema), &whole); err != nil {
		return nil, err
	}
	if whole.Properties == nil {
		return nil, nil
	}
	names, err := keys(whole.Properties)
	if err != nil {
		return nil, err
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(whole.Properties, &values); err != nil {
		return nil, err
	}
	var out []Parameter
	for _, name := range names {
		p, err := readParameter(name, values[name])
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// property is what is read of a JSON Schema.
type property struct {
	Type             any               `json:"type"`
	Description      string            `json:"description"`
	Default          json.RawMessage   `json:"default"`
	Minimum          json.Number       `json:"minimum"`
	Maximum          json.Number       `json:"maximum"`
	ExclusiveMinimum json.Number       `json:"exclusiveMinimum"`
	ExclusiveMaximum json.Number       `json:"exclusiveMaximum"`
	Enum             []json.RawMessage `json:"enum"`
}

// words says what a value may be.
func (s property) words() string {
	var parts []string
	kind, _ := s.Type.(string)
	if w, ok := map[string]string{"integer": "whole number", "boolean": "true or false", "string": "text", "array": "list", "object": "mapping"}[kind]; ok {
		kind = w
	}
	if kind != "" && len(s.Enum) == 0 {
		parts = append(parts, kind)
	}
	for _, limit := range []struct {
		word   string
		number json.Number
	}{{"at least", s.Minimum}, {"above", s.ExclusiveMinimum}, {"at most", s.Maximum}, {"below", s.ExclusiveMaximum}} {
		if limit.number != "" {
			parts = append(parts, limit.word+" "+limit.number.String())
		}
	}
	var choices []string
	for _, e := range s.Enum {
		choices = append(choices, string(e))
	}
	if choices != nil {
		parts = append(parts, "one of "+strings.Join(choices, ", "))
	}
	return strings.Join(parts, ", ")
}

// keys returns the keys of a JSON object in their order.
func keys(object []byte) ([]string, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not an object")
	}
	var out []string
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, errors.New("a key is no text")
		}
		out = append(out, key)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// text writes a value as JSON.
func text(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
