// Package system holds the whole-system tests: what a user of Pointsman relies on,
// asked of the real processes.
package system
