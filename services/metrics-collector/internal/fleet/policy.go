package fleet

import "time"

// Policy is what operators say of requests, in order of precedence: of two that say
// something of the same name the first counts. It is immutable.
type Policy struct {
	// Objectives are names that requests can give, and their priorities.
	Objectives []Objective
	// Rewrites change the model of requests.
	Rewrites []Rewrite
	// Models are models as requests name them, with criticality and targets.
	Models []ServedModel
	// CriticalModels are those whose requests are never shed; nil: no such list.
	CriticalModels []string
	// Changed is when this came to be said: when its file was written or, without a
	// file, when the process began. Holders follow what changed last, so a collector
	// that begins with an older file must not seem newer than the others.
	Changed time.Time
}

// Objective is a named priority.
type Objective struct {
	Name     string
	Priority int32
}

// Rewrite is rules for one purpose.
type Rewrite struct {
	Name  string
	Rules []RewriteRule
}

// RewriteRule says what requests for Models, or for all if there are none, are changed
// to.
type RewriteRule struct {
	Models  []string
	Targets []ModelTarget
}

// ModelTarget is a model and its share; Weight is negative if there is none.
type ModelTarget struct {
	Model  string
	Weight int64
}

// ServedModel is a model as requests name it.
type ServedModel struct {
	Model       string
	Criticality Criticality
	Targets     []ModelTarget
}

// Criticality says how badly a model's requests are needed.
type Criticality uint8

// Criticalities. Where nothing is said it is Standard.
const (
	Standard Criticality = iota
	Critical
	Sheddable
)
