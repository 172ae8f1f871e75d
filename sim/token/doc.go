// Package token is the tokenizer and the voice of the simulated model servers.
//
// Text becomes tokens of four bytes, and a newline always begins a token; the id of a token is a hash of its bytes.
// So the number of tokens is about a quarter of the number of bytes, the same text gives the same ids in every process,
// and appending to a text changes no token but its last. Chat messages are framed by special tokens, as chat templates
// do: a message has the same tokens wherever it stands in a conversation. Every piece of a generated answer is exactly
// one token of four bytes, in the answer as well as in the next turn's prompt that quotes it.
//
// It is no tokenizer of any real model, and nothing is learned from its ids.
package token
