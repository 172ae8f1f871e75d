package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

const (
	maxModelName = 256 // bytes
	maxTargets   = 64
	maxWeight    = 1_000_000
	noWeight     = -1
)

// header is what objects that refer to a pool have in common.
type header struct {
	name    string
	created time.Time
	pool    Key
}

func (h *header) head() *header { return h }

// objective is an InferenceObjective, rewrite an InferenceModelRewrite and model an
// InferenceModel.
type (
	objective struct {
		header
		priority int32
	}
	rewrite struct {
		header
		rules []fleet.RewriteRule
	}
	model struct {
		header
		served fleet.ServedModel
	}
)

// wireObject is the part of those that is read. A field that is of one of them only is
// absent in the others.
type wireObject struct {
	Metadata struct {
		Name              string    `json:"name"`
		Namespace         string    `json:"namespace"`
		CreationTimestamp time.Time `json:"creationTimestamp"`
	} `json:"metadata"`
	Spec struct {
		PoolRef struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"poolRef"`
		Priority *int32 `json:"priority"`
		Rules    []struct {
			Matches []struct {
				Model *struct {
					Type  string `json:"type"`
					Value string `json:"value"`
				} `json:"model"`
			} `json:"matches"`
			Targets []struct {
				ModelRewrite string `json:"modelRewrite"`
				Weight       *int64 `json:"weight"`
			} `json:"targets"`
		} `json:"rules"`
		ModelName    string `json:"modelName"`
		Criticality  string `json:"criticality"`
		TargetModels []struct {
			Name   string `json:"name"`
			Weight *int64 `json:"weight"`
		} `json:"targetModels"`
	} `json:"spec"`
}

func decodeObject(raw json.RawMessage) (*wireObject, header, error) {
	w := &wireObject{}
	if err := json.Unmarshal(raw, w); err != nil {
		return nil, header{}, err
	}
	ref := w.Spec.PoolRef
	if ref.Kind != "" && ref.Kind != "InferencePool" || ref.Name == "" {
		return nil, header{}, fmt.Errorf("spec.poolRef: names no InferencePool but %.64q", ref.Kind+"/"+ref.Name)
	}
	m := &w.Metadata
	return w, header{name: m.Name, created: m.CreationTimestamp, pool: Key{m.Namespace, ref.Name}}, nil
}

func decodeObjective(raw json.RawMessage) (*objective, error) {
	w, h, err := decodeObject(raw)
	if err != nil {
		return nil, err
	}
	o := &objective{header: h}
	if w.Spec.Priority != nil {
		o.priority = *w.Spec.Priority
	}
	return o, nil
}

func decodeRewrite(raw json.RawMessage) (*rewrite, error) {
	w, h, err := decodeObject(raw)
	if err != nil {
		return nil, err
	}
	r := &rewrite{header: h}
	for i, rule := range w.Spec.Rules {
		var out fleet.RewriteRule
		for k, m := range rule.Matches {
			if m.Model == nil || m.Model.Type != "" && m.Model.Type != "Exact" {
				return nil, fmt.Errorf("spec.rules[%d].matches[%d]: matches something else than a model's name exactly, which is all that is understood", i, k)
			}
			if err := validName(m.Model.Value); err != nil {
				return nil, fmt.Errorf("spec.rules[%d].matches[%d].model.value: %w", i, k, err)
			}
			out.Models = append(out.Models, m.Model.Value)
		}
		for _, t := range rule.Targets {
			out.Targets = append(out.Targets, target(t.ModelRewrite, t.Weight))
		}
		if len(out.Targets) == 0 {
			return nil, fmt.Errorf("spec.rules[%d].targets: is empty", i)
		}
		if err := settle(out.Targets); err != nil {
			return nil, fmt.Errorf("spec.rules[%d].targets: %w", i, err)
		}
		r.rules = append(r.rules, out)
	}
	if len(r.rules) == 0 {
		return nil, errors.New("spec.rules: is empty")
	}
	return r, nil
}

func decodeModel(raw json.RawMessage) (*model, error) {
	w, h, err := decodeObject(raw)
	if err != nil {
		return nil, err
	}
	m := &model{header: h, served: fleet.ServedModel{Model: w.Spec.ModelName}}
	if err := validName(m.served.Model); err != nil {
		return nil, fmt.Errorf("spec.modelName: %w", err)
	}
	switch w.Spec.Criticality {
	case "Critical":
		m.served.Criticality = fleet.Critical
	case "Sheddable":
		m.served.Criticality = fleet.Sheddable
	case "", "Standard":
	default:
		return nil, fmt.Errorf("spec.criticality: %.64q is none of Critical, Standard and Sheddable", w.Spec.Criticality)
	}
	for _, t := range w.Spec.TargetModels {
		m.served.Targets = append(m.served.Targets, target(t.Name, t.Weight))
	}
	if err := settle(m.served.Targets); err != nil {
		return nil, fmt.Errorf("spec.targetModels: %w", err)
	}
	return m, nil
}

// target makes a target; no weight is a negative one.
func target(name string, weight *int64) fleet.ModelTarget {
	if weight == nil {
		return fleet.ModelTarget{Model: name, Weight: noWeight}
	}
	if *weight < 0 {
		return fleet.ModelTarget{Model: name, Weight: noWeight - 1} // told by settle
	}
	return fleet.ModelTarget{Model: name, Weight: *weight}
}

// settle checks targets. If only some have a weight the others get 1, as the objects'
// schema has it.
func settle(targets []fleet.ModelTarget) error {
	if len(targets) > maxTargets {
		return fmt.Errorf("there are %d, at most %d are understood", len(targets), maxTargets)
	}
	weighted := false
	for i := range targets {
		t := &targets[i]
		if err := validName(t.Model); err != nil {
			return fmt.Errorf("target %d: %w", i, err)
		}
		if t.Weight < noWeight || t.Weight > maxWeight {
			return fmt.Errorf("target %d: weight is not from 0 to %d", i, maxWeight)
		}
		weighted = weighted || t.Weight >= 0
	}
	for i := range targets {
		if weighted && targets[i].Weight < 0 {
			targets[i].Weight = 1
		}
	}
	return nil
}

func validName(name string) error {
	if name == "" || len(name) > maxModelName || !utf8.ValidString(name) {
		return fmt.Errorf("a model's name has 1 to %d bytes of UTF-8, not %d", maxModelName, len(name))
	}
	for _, c := range name {
		if c < ' ' || c == 0x7f || c == utf8.RuneError {
			return errors.New("a model's name holds a control character")
		}
	}
	return nil
}
