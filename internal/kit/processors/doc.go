// Package processors lets a process run on as many processors as it has work for.
//
// Go starts with all processors there are. A process that mostly waits pays for that:
// each time something comes in, a second thread is woken to look for more, finds nothing
// and sleeps again, which costs more than the work. One processor is enough for a scorer
// up to thousands of calls a second, and hand-overs between its goroutines then wake
// nobody. So [Fit] takes processors away while the process does not use them and gives
// them back within a tenth of a second once it does.
//
// All that there are is what there were at the start: a container's limit that is changed
// while it runs counts from its next start on.
//
// It does nothing where GOMAXPROCS is set: the operator has decided. It belongs to a
// process, not to a service, so package run starts it.
package processors
