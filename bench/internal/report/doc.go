// Package report turns rounds of a benchmark into rows, each figure as the median of
// its rounds with the least and the most beside it, and writes them as Markdown for
// people and as JSON for programs.
package report
