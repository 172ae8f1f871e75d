// Package body makes the bodies of the two legs of a request, prefill and decode, out
// of the client's body.
//
// A body is read once, token by token; what a leg sends is then the client's own bytes
// with pieces cut out and put in. It promises:
//
//   - Every byte that need not change is the client's: the order of keys, white space,
//     escapes, and numbers as they were written, of any size.
//   - The client's bytes are not copied: legs share them. They are, once, without what a
//     client says between engines in an object of free arguments.
//   - What the client has not said stays unsaid on the decode leg: an absent limit of
//     tokens is absent there, a null one null.
//   - What a client says between engines, such as whom to fetch a KV cache from, no
//     engine hears, wherever engines read it.
//   - Where a key occurs more than once, all of its values are changed, so that it does
//     not matter which of them an engine heeds.
//
// Rounds makes the bodies of an answer that is decoded in several requests, and knows which
// answers cannot be.
//
// It knows which fields limit tokens in which API, and the fields by which a KV
// cache is handed over: kv_transfer_params of vLLM's ways, of which the content is the
// caller's, those of SGLang, and that of a shared storage. It does not check a
// body further than it must, and it does not read compressed ones.
package body
