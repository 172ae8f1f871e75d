//go:build race

package app

// pickBudget is larger here: under the race detector sync.Pool lets go of a part of what it
// is given, at random.
const pickBudget = 36
