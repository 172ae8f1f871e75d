// Package higress reads the configuration of Higress's ai-load-balancer plug-in, as it
// is pasted, and writes an EndpointPickerConfig that does what its policy is meant to do.
//
// It promises that every field of the policies global_least_request, prefix_cache,
// least_busy and endpoint_metrics (metrics_based) is read in the unit in which the plug-in
// reads it, whatever its documentation said; that a field which has no effect here is told
// of and not silently dropped; and that a field which the plug-in does not have is a
// fault, with a hint, because many such are copied around.
//
// It does not repeat the plug-in's faults: see docs/higress.md. It does not read the
// policies that choose among clusters (lb_type: cluster). The password of Redis is never
// part of a text that it writes.
package higress
