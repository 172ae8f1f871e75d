// Package recency remembers in which order endpoints were last given something, least
// recent first.
//
// Who is told of the same events in the same order knows the same. Events reach
// replicas over the bus, each publisher's in its order; two publishers' events that
// cross may be seen in different orders, which lasts until either endpoint is used
// again. A replica that starts adopts the order of another as older than all it hears.
package recency
