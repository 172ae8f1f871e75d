// Package body makes the bodies of the two legs of a request, prefill and decode, out
// of the client's body.
//
// A body is read once, token by token; what a leg sends is then the client's own bytes
// with pieces cut out and put in. It promises:
//
//   - Every byte that need not change is the client's: the order of keys, white space,
//     escapes, and numbers as they were written, of any size.
//   - The client's bytes are not copied: legs share them.
//   - What the client has not said stays unsaid on the decode leg: an absent limit of
//     tokens is absent there, a null one null.
//   - What a client says between engines, such as whom to fetch a KV cache from, no
//     engine hears.
//   - Where a key occurs more than once, all of its values are changed, so that it does
//     not matter which of them an engine heeds.
//
// It knows which fields limit tokens in which API, and the fields of three ways to hand
// over a KV cache: NIXL's, SGLang's and that of a shared storage. It does not check a
// body further than it must, and it does not read compressed ones.
package body
