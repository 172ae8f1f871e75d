// Package page reads the lines of a metrics page that are wanted and skips the
// rest, in one pass over the bytes and without allocating.
//
// It understands the Prometheus text format 0.0.4 and OpenMetrics text 1.0: label
// values with escapes, labels in any order, blanks, timestamps, exemplars, quoted
// metric names, pages without a final newline, and lines that end in CR LF.
//
// It promises that a line which breaks the format is an error of that line alone,
// and that every other line still counts; engines have served pages that a strict
// parser refuses as a whole.
//
// It does not check types, help texts, or the syntax of lines whose name is not
// wanted, and it does not know what any metric means.
package page
