// Package feed fills the index from the broadcast: it learns the prompts that all
// routers place, and copies what another prefix-indexer knows when it starts.
//
// Every placement carries its whole chain, so one that is lost is made good when the
// same conversation goes on; the bus counts the gaps. Nothing is asked for again
// while running.
// It also follows what comes of picks, and has the index forget what engines report to
// have lost: see package audit.
//
// A newcomer asks the others, page by page, newest placements first, and learns what
// is broadcast meanwhile as newer than all of it: so the most useful part is there
// first, nothing has to be kept back, and the copy may end anywhere. The order in which
// endpoints were sent cold prompts comes the same way, before the index. It says that it
// is not ready until it has the copy, or has found that there is none to be had.
//
// On the wire a page holds segments of chains rather than whole chains, since many
// chains share their beginning: PrefixPlacement.hashes begins with the hash of the
// block that the segment goes on from, or 0 where it begins a prompt.
package feed
