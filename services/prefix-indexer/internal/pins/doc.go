// Package pins keeps prompt prefixes in Redis: the endpoint that last served a prompt is
// pinned to the hashes of its blocks, for all prefix-indexers and for as long as the keys
// live. It takes the place of the index for look-ups, which stays what is gone by when
// Redis cannot be.
//
// A key stands for a prefix by the chained hash of its last block, which covers model,
// adapter, salt and every block before it in order: [A, B] is not [B, A], and [A, A] is
// nobody else's. Not every block has a key: the first 16 do, then every second up to 32,
// every fourth up to 64 and so on, and the last of the prompt. So a prompt of 500 blocks
// has 56 keys, all are asked for by one MGET, and a match is at most an eighth too short.
//
// It promises:
//
//   - One look-up is one command. It takes at most the budget, and nothing while Redis is
//     away. Then, and whenever Redis gives no answer that can be used, the index is
//     matched against: nothing is ever taken for "nobody has anything".
//   - What is learned is who served: endpoint and prompt of picks that were completed,
//     after a retry the endpoint that was retried on. All its keys are set, whoever they
//     named, and live for the TTL from then on; one that was set to the same less than a
//     tenth of the TTL ago is left as it is. A pin to somebody who has left is not
//     believed, and is overwritten by the next request. Nothing is deleted.
//   - One prefix-indexer of a pool writes, the one that holds a lease of 5 s.
//
// The keys are pointsman:{POOL}:prefix:SCHEME:SIZE:HASH, in one slot of a Redis Cluster.
package pins
