// Package app is scorer-kv as a whole: its name and its types; the rest is as in every
// scorer service. It is what main, the all-in-one command and tests run.
package app
