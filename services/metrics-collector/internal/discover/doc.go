// Package discover finds the endpoints of a pool: those that the configuration lists,
// those in a watched file, and the addresses of DNS names.
//
// It promises:
//
//   - Nothing is told before every source has answered or failed once, so that a
//     restart does not look like endpoints leaving.
//   - What cannot be used changes nothing: a file that is gone, half written, empty or
//     wrong, and a name that does not resolve, leave the endpoints of that source as
//     they were. It is logged when it begins and when it ends, and counted.
//   - A file that is replaced is noticed at once, whether it is written in place,
//     renamed over, or swapped by a symbolic link as in a Kubernetes ConfigMap; if the
//     system does not tell, within the poll interval.
//   - A name that does not exist (any more) is asked three times before its endpoints
//     leave; other failures to resolve never make an endpoint leave.
//
// An empty list must be said (endpoints: []): an empty file is taken for one that is
// being written. Of two endpoints with the same id or address the first one counts:
// configuration, file, names in the configuration, names in the file.
//
// The same sources say how important requests are and which model answers to which name
// (Policy), where Kubernetes would have objects of its own for that.
//
// It does not ask whether an endpoint is healthy, and does not name endpoints: see
// package fleet.
package discover
