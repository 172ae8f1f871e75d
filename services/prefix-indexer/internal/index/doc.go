// Package index remembers which endpoint was sent which prompt prefix.
//
// A prompt is a chain of block hashes, each of which covers all blocks before it.
// So equal hashes are equal prefixes, a block has one parent, and all blocks of one
// hash scheme and block size are a forest. A block is kept once, with the set of
// its holders; what an endpoint holds is closed towards the root: who holds a block
// holds every block before it.
//
// It promises:
//
//   - [Index.Match] takes no lock, copies no set and allocates nothing. It finds
//     how far each of many endpoints holds a chain by dividing the chain: the
//     closure makes one look-up at a block tell of all blocks before it.
//   - Each endpoint holds at most its capacity in blocks. The least recently placed
//     go first, and of one prompt the tail goes before the head, so that what is
//     left can still be matched. Placing a prompt again refreshes the whole chain.
//   - An endpoint that leaves is unknown at once and its entries are taken out.
//   - All entries together need at most [Config.MaxBytes]; above it the coldest of
//     all endpoints go.
//
// It knows no bus, no clock and no scorer. Placements are learned one at a time;
// any number of goroutines may match meanwhile. A match that runs while entries
// change may see some of the change.
//
// Layout, in bytes: a block takes 24 and its hash bucket 4, once, whoever holds it.
// Up to five holders are inside the block; further ones are a bitmap. Each (block,
// endpoint) takes 10, and each placement that is the newest of some block 12. None
// of it has pointers, so the garbage collector does not walk it.
package index
