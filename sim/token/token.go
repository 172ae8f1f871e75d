package token

import "strings"

// Token is a token id. Ids below 16 are special; those of text are at least 16 and below 1<<31.
type Token = uint32

// Size is the number of bytes of most tokens of text.
const Size = 4

const (
	open     Token = 1 // begins a message; the role follows
	body     Token = 2 // ends the role
	shut     Token = 3 // ends a message
	specials       = 16
)

// Len returns the number of bytes of the first token of text; 0 for an empty text.
func Len(text string) int {
	n := min(len(text), Size)
	if n > 1 {
		if i := strings.IndexByte(text[1:n], '\n'); i >= 0 {
			n = i + 1
		}
	}
	return n
}

// AppendText appends the tokens of text to dst.
func AppendText(dst []Token, text string) []Token {
	for len(text) > 0 {
		n := Len(text)
		dst = append(dst, id(text[:n]))
		text = text[n:]
	}
	return dst
}

// AppendOpen begins a message of the given role: two special tokens around the role's own. Without anything after it, it
// is what makes a model answer in that role.
func AppendOpen(dst []Token, role string) []Token {
	dst = append(dst, open)
	dst = AppendText(dst, role)
	return append(dst, body)
}

// AppendShut ends a message.
func AppendShut(dst []Token) []Token { return append(dst, shut) }

// MediaTokens is the number of tokens that AppendMedia appends.
const MediaTokens = 256

// AppendMedia appends the tokens of a part that is not text, an image say: always MediaTokens, which tell parts with
// different contents apart.
func AppendMedia(dst []Token, content []byte) []Token {
	h := uint64(offset)
	for _, b := range content {
		h = (h ^ uint64(b)) * prime
	}
	for range MediaTokens {
		h = (h ^ h>>29) * prime
		dst = append(dst, squeeze(h))
	}
	return dst
}

// The constants of FNV-1a, 64 bits.
const (
	offset = 14695981039346656037
	prime  = 1099511628211
)

func id(text string) Token {
	h := uint64(offset)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	return squeeze(h)
}

func squeeze(h uint64) Token {
	h ^= h >> 32
	t := Token(h) & (1<<31 - 1)
	if t < specials {
		t += specials
	}
	return t
}

// Sum is a hash of a prompt. It is the seed of the answer that the prompt gets, from whichever server.
func Sum(tokens []Token) uint64 {
	h := uint64(offset)
	for _, t := range tokens {
		h = (h ^ uint64(t)) * prime
		h ^= h >> 31
	}
	return h
}
