package filter

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pointsman/pointsman/internal/kit/roster"
	"github.com/pointsman/pointsman/services/router/internal/route"
)

// Type names of the filters that go by labels. SelectorAlias is the deprecated
// spelling of SelectorType.
const (
	SelectorType  = "label-selector-filter"
	SelectorAlias = "by-label-selector"
	ByLabelType   = "by-label"
)

// Operator is how a Requirement compares, spelt as in a Kubernetes LabelSelector.
type Operator string

// Operators.
const (
	In           Operator = "In"           // the label is there with one of the values
	NotIn        Operator = "NotIn"        // the label is missing, or has none of the values
	Exists       Operator = "Exists"       // the label is there
	DoesNotExist Operator = "DoesNotExist" // the label is missing
)

// Operators returns all operators, in the order in which they are documented.
func Operators() []Operator { return []Operator{In, NotIn, Exists, DoesNotExist} }

// Requirement is one condition on one label.
type Requirement struct {
	// Key is the label's name.
	Key string
	// Operator says how it is compared.
	Operator Operator
	// Values are for In and NotIn, at least one, and for nobody else.
	Values []string
}

// Validate returns what is wrong with the requirement.
func (r Requirement) Validate() error {
	if r.Key == "" {
		return errors.New("key is missing: it names the label")
	}
	switch r.Operator {
	case In, NotIn:
		if len(r.Values) == 0 {
			return fmt.Errorf("operator %s needs values, at least one", r.Operator)
		}
	case Exists, DoesNotExist:
		if len(r.Values) > 0 {
			return fmt.Errorf("operator %s takes no values", r.Operator)
		}
	default:
		return fmt.Errorf("operator %q is unknown: it must be one of %v", r.Operator, Operators())
	}
	return nil
}

func (r *Requirement) holds(e *roster.Endpoint) bool {
	value, there := e.Label(r.Key)
	switch r.Operator {
	case In:
		return there && slices.Contains(r.Values, value)
	case NotIn:
		return !there || !slices.Contains(r.Values, value)
	case Exists:
		return there
	default:
		return !there
	}
}

// Labels keeps the candidates whose labels meet all requirements. It may leave
// nobody, which is not for load. No requirements keep everybody.
type Labels struct {
	name         string
	requirements []Requirement
}

// NewSelector returns the filter of a Kubernetes LabelSelector: each label of match
// with its value, and all expressions. The error joins all faults.
func NewSelector(name string, match map[string]string, expressions []Requirement) (*Labels, error) {
	f := &Labels{name: name}
	var faults []error
	for _, key := range slices.Sorted(maps.Keys(match)) {
		if key == "" {
			faults = append(faults, errors.New("matchLabels: a label without a name"))
		}
		f.requirements = append(f.requirements, Requirement{Key: key, Operator: In, Values: []string{match[key]}})
	}
	for i, r := range expressions {
		if err := r.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("matchExpressions[%d]: %w", i, err))
		}
		r.Values = slices.Clone(r.Values)
		f.requirements = append(f.requirements, r)
	}
	return f, errors.Join(faults...)
}

// Name returns the plug-in's name in the configuration.
func (f *Labels) Name() string { return f.name }

// Filter implements route.Filter.
func (f *Labels) Filter(c *route.Cycle, in []int32) []int32 {
	return keep(in, func(pos int32) bool {
		e := &c.Snapshot.Table.Endpoints[pos]
		for i := range f.requirements {
			if !f.requirements[i].holds(e) {
				return false
			}
		}
		return true
	})
}

// ByLabel keeps the candidates whose label has one of some values, or lacks it, if
// that is allowed. It may leave nobody, which is not for load.
type ByLabel struct {
	name, label string
	values      []string
	allowsNone  bool
}

// NewByLabel returns the filter. It is an error if there is no label, or if no
// endpoint could pass: no values, and the label may not be missing either.
func NewByLabel(name, label string, values []string, allowsNone bool) (*ByLabel, error) {
	switch {
	case label == "":
		return nil, errors.New("label is missing: it names the label to go by")
	case len(values) == 0 && !allowsNone:
		return nil, errors.New("no endpoint could pass: give validValues, or allow endpoints without the label by allowsNoLabel: true")
	}
	return &ByLabel{name: name, label: label, values: slices.Clone(values), allowsNone: allowsNone}, nil
}

// Name returns the plug-in's name in the configuration.
func (f *ByLabel) Name() string { return f.name }

// Filter implements route.Filter.
func (f *ByLabel) Filter(c *route.Cycle, in []int32) []int32 {
	return keep(in, func(pos int32) bool {
		value, there := c.Snapshot.Table.Endpoints[pos].Label(f.label)
		if !there {
			return f.allowsNone
		}
		return slices.Contains(f.values, value)
	})
}
