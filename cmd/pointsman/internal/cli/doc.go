// Package cli is the command line: it finds the command, reads its flags, asks a
// router, and prints what it says, for people or as JSON.
package cli
