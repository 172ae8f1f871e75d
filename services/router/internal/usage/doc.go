// Package usage reads what a model server says of a request's tokens from its
// answer, while the answer goes by.
//
// A Reader is fed the bytes of a JSON or server-sent-events answer in chunks that
// may be cut anywhere. It keeps nothing of them and a bounded state, whatever their
// size; it never fails: what it cannot read it passes over. It reads the usage of
// chat, completions, embeddings, responses and Anthropic messages, and sees the
// first generated token and the end of a stream.
//
// It does not change or hold back the answer, and it does not decode compressed
// ones: of those it reads nothing.
package usage
