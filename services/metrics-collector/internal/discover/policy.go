package discover

import (
	"errors"
	"fmt"

	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

const (
	maxModelName  = 256  // bytes, as InferenceModel has it
	maxObjects    = 1000 // of each kind
	maxTargets    = 64
	maxWeight     = 1_000_000
	anyObjectName = 253 // bytes, as Kubernetes has it
)

// Policy is what is said of requests: what Kubernetes has as InferenceObjective,
// InferenceModelRewrite and, in the first generation, InferenceModel.
type Policy struct {
	// Objectives are names that requests can give in the header
	// x-gateway-inference-objective. Default none.
	Objectives []ObjectiveConfig `yaml:"objectives"`
	// Rewrites change the model of requests. Default none.
	Rewrites []RewriteConfig `yaml:"rewrites"`
	// Models are those of the first generation. If there are any, or CriticalModels,
	// requests for models that neither calls critical may be shed. Default none.
	Models []ModelConfig `yaml:"models"`
	// CriticalModels are the models whose requests are never shed; those of all others
	// may be. An empty list is one too. Default: no list.
	CriticalModels []string `yaml:"criticalModels"`
}

// Empty says whether nothing is said.
func (p Policy) Empty() bool {
	return len(p.Objectives) == 0 && len(p.Rewrites) == 0 && len(p.Models) == 0 && p.CriticalModels == nil
}

// ObjectiveConfig is a named priority.
type ObjectiveConfig struct {
	// Name is what requests give. Required.
	Name string `yaml:"name"`
	// Priority is higher for what is more important; requests with one below 0 are shed
	// when there is no room. Default 0.
	Priority int32 `yaml:"priority"`
}

// RewriteConfig is rules for one purpose.
type RewriteConfig struct {
	// Name is for people. Required.
	Name string `yaml:"name"`
	// Rules of which the first that names the model counts, or else the first that
	// names none, in all rewrites together. Required.
	Rules []RewriteRuleConfig `yaml:"rules"`
}

// RewriteRuleConfig says what requests are changed to.
type RewriteRuleConfig struct {
	// Matches say which requests: any of them. Default: all.
	Matches []MatchConfig `yaml:"matches"`
	// Targets of which one is drawn per request. Required.
	Targets []TargetConfig `yaml:"targets"`
}

// MatchConfig says which requests a rule is for.
type MatchConfig struct {
	// Model is the name that requests give, all of it. Required.
	Model string `yaml:"model"`
}

// TargetConfig is a model that requests are changed to.
type TargetConfig struct {
	// Model is its name on the endpoints. Required.
	Model string `yaml:"model"`
	// Weight is its share among the targets, 0 to 1,000,000. All have one or none. If
	// none has, or all are 0, shares are equal.
	Weight *int64 `yaml:"weight"`
}

// ModelConfig is a model as requests name it.
type ModelConfig struct {
	// ModelName is the name that requests give. Required.
	ModelName string `yaml:"modelName"`
	// Criticality is Critical, Standard or Sheddable. Requests for others than Critical
	// are shed when there is no room. Default Standard.
	Criticality string `yaml:"criticality"`
	// TargetModels are what it is changed to. Default: nothing.
	TargetModels []ModelTargetConfig `yaml:"targetModels"`
}

// ModelTargetConfig is TargetConfig as InferenceModel spells it.
type ModelTargetConfig struct {
	// Name is the model's name on the endpoints. Required.
	Name string `yaml:"name"`
	// Weight as among the targets of rewrites, but at least 1.
	Weight *int64 `yaml:"weight"`
}

// criticality reads a word; false if it is none.
func criticality(word string) (fleet.Criticality, bool) {
	switch word {
	case "", "Standard":
		return fleet.Standard, true
	case "Critical":
		return fleet.Critical, true
	case "Sheddable":
		return fleet.Sheddable, true
	}
	return 0, false
}

// Validate returns all faults, each beginning with its key.
func (p Policy) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for key, n := range map[string]int{
		"objectives": len(p.Objectives), "rewrites": len(p.Rewrites), "models": len(p.Models), "criticalModels": len(p.CriticalModels),
	} {
		if n > maxObjects {
			fault("%s: there are %d, at most %d are allowed", key, n, maxObjects)
		}
	}
	first := make(map[string]string) // kind and name → key
	unique := func(kind, name, key string) {
		if name == "" {
			return // its own fault
		}
		if before, there := first[kind+name]; there {
			fault("%s: %q is there already, at %s", key, name, before)
			return
		}
		first[kind+name] = key
	}
	for i, o := range p.Objectives {
		key := fmt.Sprintf("objectives[%d].name", i)
		faults = append(faults, validateName(key, o.Name, anyObjectName))
		unique("objective ", o.Name, key)
	}
	for i, r := range p.Rewrites {
		at := fmt.Sprintf("rewrites[%d]", i)
		faults = append(faults, validateName(at+".name", r.Name, anyObjectName), r.validate(at))
		unique("rewrite ", r.Name, at+".name")
	}
	for i, m := range p.Models {
		at := fmt.Sprintf("models[%d]", i)
		faults = append(faults, validateName(at+".modelName", m.ModelName, maxModelName))
		unique("model ", m.ModelName, at+".modelName")
		if _, ok := criticality(m.Criticality); !ok {
			fault("%s.criticality: must be Critical, Standard or Sheddable, not %.64q", at, m.Criticality)
		}
		var targets []target
		for k, t := range m.TargetModels {
			targets = append(targets, target{fmt.Sprintf("%s.targetModels[%d]", at, k), "name", t.Name, t.Weight})
		}
		faults = append(faults, validateTargets(at+".targetModels", targets, 1))
	}
	for i, m := range p.CriticalModels {
		key := fmt.Sprintf("criticalModels[%d]", i)
		faults = append(faults, validateName(key, m, maxModelName))
		unique("critical ", m, key)
	}
	return errors.Join(faults...)
}

func (r *RewriteConfig) validate(at string) error {
	var faults []error
	if len(r.Rules) == 0 {
		faults = append(faults, fmt.Errorf("%s.rules: is missing or empty", at))
	}
	for i, rule := range r.Rules {
		at := fmt.Sprintf("%s.rules[%d]", at, i)
		for k, m := range rule.Matches {
			faults = append(faults, validateName(fmt.Sprintf("%s.matches[%d].model", at, k), m.Model, maxModelName))
		}
		if len(rule.Targets) == 0 {
			faults = append(faults, fmt.Errorf("%s.targets: is missing or empty", at))
		}
		var targets []target
		for k, t := range rule.Targets {
			targets = append(targets, target{fmt.Sprintf("%s.targets[%d]", at, k), "model", t.Model, t.Weight})
		}
		faults = append(faults, validateTargets(at+".targets", targets, 0))
	}
	return errors.Join(faults...)
}

// target is a target of either generation.
type target struct {
	at, nameKey, model string
	weight             *int64
}

func validateTargets(key string, targets []target, least int64) error {
	var faults []error
	if len(targets) > maxTargets {
		faults = append(faults, fmt.Errorf("%s: there are %d, at most %d are allowed", key, len(targets), maxTargets))
	}
	weighted := 0
	for _, t := range targets {
		faults = append(faults, validateName(t.at+"."+t.nameKey, t.model, maxModelName))
		if t.weight == nil {
			continue
		}
		weighted++
		if *t.weight < least || *t.weight > maxWeight {
			faults = append(faults, fmt.Errorf("%s.weight: must be from %d to %d, not %d", t.at, least, maxWeight, *t.weight))
		}
	}
	if weighted > 0 && weighted < len(targets) {
		faults = append(faults, fmt.Errorf("%s: %d of %d have a weight; give one to all or to none", key, weighted, len(targets)))
	}
	return errors.Join(faults...)
}

func validateName(key, name string, limit int) error {
	switch {
	case name == "":
		return fmt.Errorf("%s: is missing or empty", key)
	case len(name) > limit:
		return fmt.Errorf("%s: has %d bytes, at most %d are allowed", key, len(name), limit)
	}
	for _, c := range name {
		if c < ' ' || c == 0x7f || c == 0xfffd {
			return fmt.Errorf("%s: %.64q holds a control character, or is no UTF-8", key, name)
		}
	}
	return nil
}

// policyOf puts what several lists say together, in the order in which they count.
func policyOf(lists []*List) *fleet.Policy {
	out := &fleet.Policy{}
	for _, l := range lists {
		for _, o := range l.Objectives {
			out.Objectives = append(out.Objectives, fleet.Objective(o))
		}
		for i := range l.Rewrites {
			out.Rewrites = append(out.Rewrites, l.Rewrites[i].rewrite())
		}
		for _, m := range l.Models {
			critical, _ := criticality(m.Criticality) // validated
			served := fleet.ServedModel{Model: m.ModelName, Criticality: critical}
			for _, t := range m.TargetModels {
				served.Targets = append(served.Targets, fleet.ModelTarget{Model: t.Name, Weight: share(t.Weight)})
			}
			out.Models = append(out.Models, served)
		}
		if l.CriticalModels != nil {
			out.CriticalModels = append(append(make([]string, 0, len(l.CriticalModels)), out.CriticalModels...), l.CriticalModels...)
		}
	}
	return out
}

func (r *RewriteConfig) rewrite() fleet.Rewrite {
	out := fleet.Rewrite{Name: r.Name}
	for _, rule := range r.Rules {
		var made fleet.RewriteRule
		for _, m := range rule.Matches {
			made.Models = append(made.Models, m.Model)
		}
		for _, t := range rule.Targets {
			made.Targets = append(made.Targets, fleet.ModelTarget{Model: t.Model, Weight: share(t.Weight)})
		}
		out.Rules = append(out.Rules, made)
	}
	return out
}

// share is a weight as the fleet has it.
func share(weight *int64) int64 {
	if weight == nil {
		return -1
	}
	return *weight
}
