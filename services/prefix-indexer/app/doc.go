// Package app is prefix-indexer as a whole: its configuration, its parts and their
// order. It is what main, the all-in-one command and tests run.
package app
