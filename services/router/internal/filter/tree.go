package filter

import (
	"errors"

	"github.com/pointsman/pointsman/services/router/internal/route"
)

// DecisionTreeType is the type name of Tree.
const DecisionTreeType = "decision-tree-filter"

// Node is a decision: a filter, and what is done with what it leaves. Current is a
// filter, and may itself be a tree.
//
// If Current leaves somebody, the next filter gets those: NextOnSuccess, or else
// NextOnSuccessOrFailure, or none. If it leaves nobody, the next filter gets the
// candidates that Current got: NextOnFailure, or else NextOnSuccessOrFailure, or
// none, and then nobody stays.
type Node struct {
	Current                route.Filter
	NextOnSuccess          route.Filter
	NextOnFailure          route.Filter
	NextOnSuccessOrFailure route.Filter
}

// Tree is a Node as a filter.
type Tree struct {
	name string
	node Node
}

// loadTree is a Tree that leaves nobody only where a load filter did.
type loadTree struct{ *Tree }

// FiltersLoad marks the filter as a route.LoadFilter.
func (loadTree) FiltersLoad() {}

// NewTree returns a filter that decides as the node says. It is a route.LoadFilter
// if every filter that can leave it with nobody is one. It is an error if the node
// has no Current.
func NewTree(name string, node Node) (route.Filter, error) {
	if node.Current == nil {
		return nil, errors.New("a current filter must be specified")
	}
	t := &Tree{name: name, node: node}
	if t.emptiesByLoad() {
		return loadTree{t}, nil
	}
	return t, nil
}

// Name returns the plug-in's name in the configuration.
func (t *Tree) Name() string { return t.name }

// Filter implements route.Filter.
func (t *Tree) Filter(c *route.Cycle, in []int32) []int32 {
	n := &t.node
	onFailure := or(n.NextOnFailure, n.NextOnSuccessOrFailure)
	given := in
	if onFailure != nil {
		// Current writes into what it is given, and in is needed once more.
		given = append(make([]int32, 0, len(in)), in...)
	}
	left := n.Current.Filter(c, given)
	next := or(n.NextOnSuccess, n.NextOnSuccessOrFailure)
	if len(left) == 0 {
		left, next = in, onFailure
		if next == nil {
			return nil
		}
	}
	if next == nil {
		return left
	}
	return next.Filter(c, left)
}

// emptiesByLoad says whether each filter at which the tree can end with nobody is a
// load filter.
func (t *Tree) emptiesByLoad() bool {
	n := &t.node
	onSuccess, onFailure := or(n.NextOnSuccess, n.NextOnSuccessOrFailure), or(n.NextOnFailure, n.NextOnSuccessOrFailure)
	if onFailure == nil {
		onFailure = n.Current
	}
	return filtersLoad(onFailure) && (onSuccess == nil || filtersLoad(onSuccess))
}

func filtersLoad(f route.Filter) bool {
	_, load := f.(route.LoadFilter)
	return load
}

func or(a, b route.Filter) route.Filter {
	if a != nil {
		return a
	}
	return b
}
