// Package examples tests scorers as strangers meet them: the examples in three
// languages are built, tested, held against the contract, and route real traffic; so
// are the scorers that come with Pointsman; the tutorial is run as it is written; and
// scorers that fail in every way cost no request.
package examples
