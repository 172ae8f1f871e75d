// Package parameters reads the parameters of one scorer instance: a JSON object, as
// scorer.Type.Parse is given it, or nothing.
//
// Keys match in any case, as they do in the Inference Gateway's configurations, and
// null is as if a key were absent. It promises that all faults are found, each with
// the key as it was written, and that what is not in the list of keys is a fault.
//
// What was read can be written down again with nothing left out: reading that comes to
// the same, and writes the same.
package parameters
