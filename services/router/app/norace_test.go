//go:build !race

package app

// pickBudget is the most allocations of a pick; see TestPickAllocations.
const pickBudget = 24
