// Package counter counts the requests in flight on each endpoint over all routers of a
// pool, as leases.
//
// Each router has a sub-counter per endpoint in a [Store], under an identity that no
// other process ever has, and the store adds them up. A sub-counter lives as long as its
// router renews it, so that the counts of a router that dies are gone within the TTL. The
// router knows itself what it holds; the store is a copy of that, and the place where the
// routers' requests meet.
//
// It promises:
//
//   - [Leases.Reserve] chooses among the candidates given and counts the request in one
//     step, so that no two routers see the same idle endpoint. Endpoints that nobody has
//     counted yet stand at 0; equals are equally likely.
//   - A lease is released once, on the endpoint it was reserved on, however often Release
//     is called and whatever has become of the store. No count is ever below zero.
//   - A count that may have gone wrong (a call without an answer, a store that lost its
//     memory, a router that slept for longer than the TTL) is put right as a whole by the
//     router that it is of, under a new generation: what comes late from an older one
//     changes nothing. Nobody writes another router's sub-counters, except to end those of
//     a dead one.
//   - A store that is away is an error, and never read as "nothing in flight". Requests
//     placed meanwhile are counted when it is back.
//   - An endpoint that has left is not counted any longer.
//
// Counts are kept in Redis ([NewRedis]) or in memory ([NewMemory]), where routers of one
// process can meet. It does not decide what to do while the store is away.
package counter
