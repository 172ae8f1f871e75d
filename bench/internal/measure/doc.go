// Package measure loads a subject for a window and reads what each of its processes used
// meanwhile, and what else the machine was busy with.
package measure
