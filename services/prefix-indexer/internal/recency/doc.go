// Package recency remembers in which order endpoints were last given something, least
// recent first.
//
// Who is told of the same events in the same order knows the same. Events reach
// replicas over the bus, each publisher's in its order; two publishers' events that
// cross may be seen in different orders, which lasts until either endpoint is used
// again. A replica that has just started has heard of nothing.
package recency
