// Package outcome is the ledger of this router's picks: it reserves them, publishes
// what becomes of them, and releases each exactly once.
//
// A pick counts in the router's own roster at once, and until a scorer says that it has
// heard of it, it is sent along with the score calls (Pending). It goes out on the bus
// at once too, or at most 2 ms after the batch before while there are other routers, who
// go by it; 10 ms otherwise. First tokens and ends, which nobody hurries for, go with
// picks or after 10 ms. Prompts go out on a subject of their own, since only prefix
// indexers want them.
//
// Where another process has a prompt prefilled, nobody tells when that is done. The pick of
// the endpoint that prefills ends then with the first token of a streamed answer; with
// another answer, after the time that the endpoint is estimated to take, which is learned
// from streamed answers; in any case when the answer begins.
//
// It promises that an endpoint's count never goes below zero and that a lost batch
// is seen: sequences have no holes unless something was lost, and open picks are
// told to whoever asks.
package outcome
