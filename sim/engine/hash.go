package engine

import "math/bits"

// Two odd constants of high entropy (the fractional parts of the golden ratio and of the square root of two).
const (
	mix1 = 0x9e3779b97f4a7c15
	mix2 = 0x6a09e667f3bcc909
)

// fold mixes a value into a hash with one 128-bit multiplication.
func fold(h, v uint64) uint64 {
	hi, lo := bits.Mul64(h^mix1, v^mix2)
	return hi ^ lo ^ bits.RotateLeft64(h, 23)
}

// seedHash begins the chain of a request: requests with another adapter or salt share no block.
func seedHash(adapter, salt string) uint64 {
	h := fold(mix2, uint64(len(adapter)))
	for i := range len(adapter) {
		h = fold(h, uint64(adapter[i]))
	}
	h = fold(h, uint64(len(salt)))
	for i := range len(salt) {
		h = fold(h, uint64(salt[i]))
	}
	return h
}

// chain continues the chain over one block's tokens.
func chain(parent uint64, tokens []Token) uint64 {
	h := fold(parent, uint64(len(tokens)))
	for len(tokens) >= 2 {
		h = fold(h, uint64(tokens[0])<<32|uint64(tokens[1]))
		tokens = tokens[2:]
	}
	if len(tokens) == 1 {
		h = fold(h, uint64(tokens[0]))
	}
	return h
}
