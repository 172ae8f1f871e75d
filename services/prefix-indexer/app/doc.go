// Package app is prefix-indexer as a whole: its configuration, its types and the
// index that they go by; the rest is as in every scorer service. It is what main, the
// all-in-one command and tests run.
package app
