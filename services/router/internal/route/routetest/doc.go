// Package routetest builds rosters and cycles for tests of what works on them.
package routetest
