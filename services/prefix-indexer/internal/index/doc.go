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
// Layout, in bytes: a block takes 24 and its entry in a hash table some 12, once, whoever
// holds it. Up to five holders are inside the block; further ones are a bitmap. When a
// block was last used stands in the block while it has one holder; with the second, each
// (block, endpoint) takes 10 in a table of that endpoint. Each placement that is the
// newest of some block takes 12. None of it has pointers, so the garbage collector does
// not walk it.
//
// What a block costs is memory that nobody has looked at for long, so little is looked
// at: of a hash table one cache line, of which the tags tell the rest. Blocks of one
// prompt lie beside each other as far as that is possible.
package index
