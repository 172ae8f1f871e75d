// Package fleet is what one metrics-collector knows: the endpoints it has
// discovered, how busy they are, and the other collectors of the pool. From that it
// decides under which ids endpoints are announced and which collector scrapes which.
// It does no input or output and has no clock of its own.
//
// # Endpoint ids
//
// Positions in the pool's content-addressed tables stand for endpoints only if all
// collectors give an endpoint the same id, and an endpoint that left and came back
// must have a new one, or the counts and cached prefixes of its former life would be
// its own. An id that the operator (or a pod's UID) gives is taken as it is. For the
// rest the id is "host:port", and "host:port#2", "#3", … in later lives.
//
// The number of the life is agreed on without a leader:
//
//   - The first life is 1, unless another collector's table says otherwise. A
//     collector that starts asks the others before it names anything.
//   - A collector that sees an endpoint come back counts one up, unless another
//     collector's present table holds it under a number that is new since this one saw
//     the endpoint leave: then the other has seen the same return earlier, and its
//     number is taken.
//   - A higher number in another collector's table is taken over at once, a lower one
//     is ignored. So the numbers only grow, and all arrive at the highest.
//   - Numbers of endpoints that are gone everywhere are kept for 10 minutes, much
//     longer than the tables of the others take to lose the endpoint.
//
// Collectors may see the discovered set change at different times (a ConfigMap
// arrives on different nodes up to a minute apart); the rule above holds for lags of
// up to two minutes. When all collectors restart at once the counting starts at 1 again.
//
// # Tables
//
// A table's change time says when its publisher saw the members change, and holders
// follow the table that changed last. Refinements that a collector takes over from
// others or learns from pages (a life's number, models, cache size) move the change
// time by one nanosecond only: a collector that has not seen the newest members must
// not win against one that has, just because it learnt a model's name. A change of
// members is marked later than any change heard of before, so clocks that differ
// between hosts do not decide.
//
// Only the collector that scrapes an endpoint learns details from its page; the others
// copy them from its table, so that all tables say the same.
//
// # Who scrapes what
//
// Every collector sends heartbeats; one that has been silent for a second is dead,
// one that says it leaves is gone at once. Each endpoint belongs to the live collector
// with the highest hash of (collector, endpoint) among those whose table has the
// endpoint, so a collector's coming or going moves only the endpoints that are its own.
// While this collector hears nobody because the bus is away or it was itself asleep,
// nobody is taken for dead: what it scraped then could not be told to anybody, and the
// engines would be scraped once per collector.
package fleet
