// Package knobs lists what can be set in a service's configuration file: key, kind of
// value, default, and the comment of the struct's field in the source.
//
// It promises that a list is as complete as the structs are, since it is read off
// them, and that a field without a comment is an error. It needs the source tree, so it
// is for those who write reference pages, not for the running program.
package knobs
