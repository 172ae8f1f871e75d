// Package jsonscan reads JSON token by token as its bytes arrive, without building
// anything from it.
//
// A Scanner accepts exactly what encoding/json accepts, up to a depth of nesting
// that the caller sets. Its state is bounded whatever the input: a string of any
// length passes through it without being kept, and chunks may be cut at any byte.
// Tokens carry their offsets in the stream, so that whoever keeps the chunks can
// find the bytes again; short tokens are also handed out directly.
//
// It does not convert, unescape or check keys for duplicates, and it does not keep
// the chunks. Invalid UTF-8 passes as it is.
package jsonscan
