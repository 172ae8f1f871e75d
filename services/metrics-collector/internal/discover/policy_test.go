package discover

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/services/metrics-collector/internal/fleet"
)

const fullPolicy = `endpoints: []
objectives:
- {name: batch, priority: -1}
- {name: plain}
rewrites:
- name: canary
  rules:
  - matches: [{model: chat}, {model: chat-latest}]
    targets: [{model: chat-v1, weight: 90}, {model: chat-v2, weight: 10}]
  - targets: [{model: base}]
models:
- {modelName: food, criticality: Critical}
- {modelName: tail, targetModels: [{name: tail-a, weight: 1}]}
- {modelName: junk, criticality: Sheddable}
criticalModels: [chat]
`

func TestPolicyIsRead(t *testing.T) {
	list, err := parse("f.yaml", []byte(fullPolicy))
	if err != nil {
		t.Fatal(err)
	}
	want := &fleet.Policy{
		Objectives: []fleet.Objective{{Name: "batch", Priority: -1}, {Name: "plain"}},
		Rewrites: []fleet.Rewrite{{Name: "canary", Rules: []fleet.RewriteRule{
			{Models: []string{"chat", "chat-latest"}, Targets: []fleet.ModelTarget{{Model: "chat-v1", Weight: 90}, {Model: "chat-v2", Weight: 10}}},
			{Targets: []fleet.ModelTarget{{Model: "base", Weight: -1}}},
		}}},
		Models: []fleet.ServedModel{
			{Model: "food", Criticality: fleet.Critical},
			{Model: "tail", Targets: []fleet.ModelTarget{{Model: "tail-a", Weight: 1}}},
			{Model: "junk", Criticality: fleet.Sheddable},
		},
		CriticalModels: []string{"chat"},
	}
	if d := cmp.Diff(want, policyOf([]*List{list})); d != "" {
		t.Error(d)
	}
}

// Of the configuration and the file, the configuration comes first; an empty list of
// critical models is one, and none is none.
func TestPoliciesAddUpInOrder(t *testing.T) {
	own := &List{Policy: Policy{Objectives: []ObjectiveConfig{{Name: "a", Priority: 1}}}}
	file := &List{Policy: Policy{Objectives: []ObjectiveConfig{{Name: "a", Priority: 2}}, CriticalModels: []string{}}}
	got := policyOf([]*List{own, file})
	want := &fleet.Policy{Objectives: []fleet.Objective{{Name: "a", Priority: 1}, {Name: "a", Priority: 2}}, CriticalModels: []string{}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if policyOf([]*List{own}).CriticalModels != nil {
		t.Error("no list of critical models became an empty one")
	}
}

func TestWrongPoliciesAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"objective without a name":    {"objectives: [{priority: 1}]", "objectives[0].name: is missing"},
		"objective twice":             {"objectives: [{name: a}, {name: a}]", `objectives[1].name: "a" is there already, at objectives[0].name`},
		"priority no number":          {"objectives: [{name: a, priority: high}]", "objectives[0].priority"},
		"priority out of range":       {"objectives: [{name: a, priority: 3000000000}]", "priority"},
		"misspelt key":                {"objectives: [{name: a, priorty: 1}]", "did you mean priority"},
		"control character":           {`objectives: [{name: "a\nb"}]`, "control character"},
		"rewrite without rules":       {"rewrites: [{name: a}]", "rewrites[0].rules: is missing"},
		"rewrite twice":               {"rewrites: [{name: a, rules: [{targets: [{model: x}]}]}, {name: a, rules: [{targets: [{model: x}]}]}]", "is there already"},
		"rule without targets":        {"rewrites: [{name: a, rules: [{matches: [{model: m}]}]}]", "rules[0].targets: is missing"},
		"match without a model":       {"rewrites: [{name: a, rules: [{matches: [{}], targets: [{model: x}]}]}]", "matches[0].model: is missing"},
		"target without a model":      {"rewrites: [{name: a, rules: [{targets: [{weight: 1}]}]}]", "targets[0].model: is missing"},
		"some targets have weights":   {"rewrites: [{name: a, rules: [{targets: [{model: x, weight: 1}, {model: y}]}]}]", "1 of 2 have a weight"},
		"negative weight":             {"rewrites: [{name: a, rules: [{targets: [{model: x, weight: -1}]}]}]", "weight: must be from 0 to 1000000"},
		"weight above the limit":      {"rewrites: [{name: a, rules: [{targets: [{model: x, weight: 1000001}]}]}]", "weight: must be from 0 to 1000000"},
		"target model of weight 0":    {"models: [{modelName: m, targetModels: [{name: x, weight: 0}]}]", "weight: must be from 1 to 1000000"},
		"some target models weighted": {"models: [{modelName: m, targetModels: [{name: x, weight: 1}, {name: y}]}]", "1 of 2 have a weight"},
		"unknown criticality":         {"models: [{modelName: m, criticality: critical}]", `must be Critical, Standard or Sheddable, not "critical"`},
		"model twice":                 {"models: [{modelName: m}, {modelName: m}]", "models[1].modelName"},
		"critical model twice":        {"criticalModels: [m, m]", "criticalModels[1]"},
		"long model name":             {"criticalModels: [" + strings.Repeat("m", 257) + "]", "has 257 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse("f.yaml", []byte("endpoints: []\n"+c.text+"\n"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// A file that becomes wrong changes nothing; one that is right again does.
func TestPolicyFollowsTheFile(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "endpoints.yaml"), file(1)+"objectives: [{name: a, priority: 1}]\n")
	cfg := quick()
	cfg.EndpointsFile = path
	cfg.Objectives = []ObjectiveConfig{{Name: "own", Priority: 7}}
	b := newBench(t)
	var mu sync.Mutex
	var last *fleet.Policy
	b.policy = func(p *fleet.Policy) { mu.Lock(); last = p; mu.Unlock() }
	b.start(cfg)
	priorities := func() (all []int32) {
		mu.Lock()
		defer mu.Unlock()
		if last != nil {
			for _, o := range last.Objectives {
				all = append(all, o.Priority)
			}
		}
		return all
	}
	is := func(want ...int32) {
		t.Helper()
		kittest.Eventually(t, "the policy follows", func() bool { return cmp.Equal(priorities(), want) })
	}
	is(7, 1)
	write(t, path, file(1)+"objectives: [{name: a, priority: 2}]\n")
	is(7, 2)
	write(t, path, file(1)+"objectives: [{name: a, priority: two}]\n")
	kittest.Eventually(t, "the wrong file is noticed", func() bool { return b.faults("file") == 1 })
	is(7, 2)
	write(t, path, file(1))
	is(7)
}
