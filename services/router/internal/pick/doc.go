// Package pick holds the pickers: they order the scored candidates of a profile.
//
// Every picker promises that candidates which are equal in all that it looks at are
// equally likely to come first, whatever their position in the table, and that it
// returns as many endpoints as it is asked for, or all there are. Pickers have no
// state; the counts of requests in flight that some look at are given to them.
package pick
