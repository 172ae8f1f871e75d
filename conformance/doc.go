// Package conformance holds a scorer against the rules of docs/scorer-contract.md.
//
// The rules that can be seen from outside are a table of checks, [Checks]; each has the
// anchor of its rule. [Verify] runs them against a connection and returns a [Report],
// which `pointsman scorer verify` prints and package conformancetest turns into
// subtests.
//
// It promises that
//
//   - every call has a deadline, so that a run ends whatever the scorer does;
//   - what is sent is what a router could send, but for the checks of what is refused;
//   - nothing is left behind: reported outcomes are of endpoints that never were.
//
// It does not say whether scores are wise, nor how a scorer bears load, and it knows
// nothing of package testing. A scorer that has no opinion on the endpoints that are
// made up here passes with a warning: [Options] can name better ones.
package conformance
