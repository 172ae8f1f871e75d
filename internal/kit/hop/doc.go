// Package hop is what HTTP proxies have to do at each hop, whatever they are for: which headers go no further, and how a
// connection to the next hop is secured.
//
// It has no proxy, and keeps nothing.
package hop
