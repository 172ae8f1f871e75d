// Package answer reads and changes the answers of the two legs of a request.
//
// Read takes the answer of the prefill leg, which is whole: what is to be handed to the
// decode leg, and how many tokens of the prompt were cached.
//
// A Splicer puts that number into the answer of the decode leg while it goes by: an
// engine that has fetched a KV cache counts all of it as cached, which is not what the
// client is to be told. It changes that number, in a JSON answer or in every event of a
// stream, and adds it where an answer with a usage has none; every other byte passes as
// it is and at once, cut as it came. It keeps a bounded state, whatever the size of the
// answer, and never fails: what it cannot read it passes on.
//
// A Peek tells whether an answer is one that says that too little was cached.
//
// A Round is the answer of one of several requests by which an answer is decoded; Merge and
// Event make one answer of them, whole or in events. Union joins what encoders hand over.
package answer
