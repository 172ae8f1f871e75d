// Package broadcast tells the pool what a fleet knows, and a fleet what the other
// collectors tell: endpoint tables, loads, and the heartbeats by which collectors
// share the endpoints.
//
// It promises:
//
//   - The others are asked for what they know before anything is told, so that a
//     collector that starts names endpoints as they do.
//   - A table goes out as soon as it changes, at most every 20 ms, and every 2 s; it
//     goes out before the loads whose positions refer to it.
//   - Loads are those of the endpoints that this collector scrapes, with the age of
//     each figure at the sending. Endpoints that were never scraped are left out. What
//     is too large for one message is sent in several.
//   - Whoever asks is told the table and the newest loads of all endpoints, also those
//     that other collectors scrape.
//   - A collector that stops says so, and its endpoints are taken over at once.
//
// It does not decide anything: see package fleet.
package broadcast
