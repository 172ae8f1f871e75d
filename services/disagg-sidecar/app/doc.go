// Package app is the sidecar's service: its configuration, its command line, which takes
// the flags of llm-d's routing sidecar too, and the only place that knows all its parts.
package app
