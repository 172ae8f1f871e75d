// Package app is scorer-kv as a whole: its configuration, its parts and their
// order. It is what main, the all-in-one command and tests run.
package app
