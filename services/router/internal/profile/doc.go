// Package profile holds the profile handlers: they decide which scheduling profiles
// run for a request, and which result names its endpoint. Handlers have no state of
// their own; all that they know of a request is in the cycle and the results so far.
package profile
