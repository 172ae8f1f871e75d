// Package decisions remembers the newest decisions and shows them to whoever
// watches.
//
// It keeps summaries: no prompt, no header, nothing of a candidate but the picked
// ones, so that remembering costs a few hundred bytes whatever the pool's size. A
// watcher that asks for candidates gets them as the decision is made. It never
// blocks a request: a watcher that is too slow loses decisions and is told how many.
package decisions
