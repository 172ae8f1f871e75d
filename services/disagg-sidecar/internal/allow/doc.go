// Package allow knows which addresses may be called: those of the pool's endpoints, as
// collectors broadcast them, and those that the operator names.
//
// An address is allowed by host and port together: another port of an endpoint's host
// is another service. IP addresses are compared as such, however they are spelt; names as
// names, in any case: nothing is resolved. Before a table was heard nothing of the pool is
// allowed. A table counts until its collector has been silent for a while and another has
// spoken; with all of them gone the last one stands.
package allow
