package token

// Head says how the first piece of an answer is written, so that the answer's tokens come out of the text again when a
// later prompt quotes it.
type Head byte

const (
	// Sentence begins with a capital letter: for chat, where a message begins.
	Sentence Head = iota
	// Line begins with a newline: for completions, where the answer is appended to the prompt's text.
	Line
	// Word begins as every other piece does, with a space.
	Word
)

const (
	consonants = "bdfghjklmnprstvz"
	vowels     = "aeiou"
)

// AppendPiece appends the text of the i-th token, from 0, of the answer with the given seed: always four bytes.
func AppendPiece(dst []byte, seed uint64, i int, head Head) []byte {
	h := seed + uint64(i+1)*0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	h ^= h >> 31
	pick := func(letters string) byte {
		c := letters[h%uint64(len(letters))]
		h /= uint64(len(letters))
		return c
	}
	first := byte(' ')
	if i == 0 {
		switch head {
		case Sentence:
			first = pick(vowels) - 'a' + 'A'
		case Line:
			first = '\n'
		}
	}
	return append(dst, first, pick(consonants), pick(vowels), pick(consonants))
}

// Text returns the text of an answer of n tokens.
func Text(seed uint64, n int, head Head) string {
	dst := make([]byte, 0, Size*n)
	for i := range n {
		dst = AppendPiece(dst, seed, i, head)
	}
	return string(dst)
}

// AppendAnswer appends the tokens of that text to dst.
func AppendAnswer(dst []Token, seed uint64, n int, head Head) []Token {
	var piece [Size]byte
	for i := range n {
		dst = append(dst, id(string(AppendPiece(piece[:0], seed, i, head))))
	}
	return dst
}
