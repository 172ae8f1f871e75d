package jsonscan

// Kind is what a token is.
type Kind uint8

// Kinds of tokens.
const (
	ObjectBegin Kind = iota + 1
	ObjectEnd
	ArrayBegin
	ArrayEnd
	Key
	String
	Number
	True
	False
	Null
)

// Token is one token. Commas, colons and white space are not tokens.
type Token struct {
	// Kind is what it is.
	Kind Kind
	// Start and End are offsets in the stream, in bytes. For keys and strings they
	// exclude the quotes.
	Start, End int64
	// Depth is the number of arrays and objects around the token; a key, and the
	// value of a key, are inside of their object.
	Depth int
	// Bytes are the token's raw bytes, valid until the next call of the scanner.
	// Nil if the token began in an earlier chunk and is longer than 256 bytes, and
	// for ends and beginnings.
	Bytes []byte
	// Escaped is true for a key or string with escapes in it.
	Escaped bool
	// Shrink is how many bytes shorter the unescaped text is than the raw bytes.
	Shrink int64
}

// Scalar is true for strings, numbers, true, false and null.
func (t *Token) Scalar() bool { return t.Kind >= String }

// Begins is true for the beginning of an array or object.
func (t *Token) Begins() bool { return t.Kind == ObjectBegin || t.Kind == ArrayBegin }

// Ends is true for the end of an array or object.
func (t *Token) Ends() bool { return t.Kind == ObjectEnd || t.Kind == ArrayEnd }

// Is is true if the text of the key or string is s.
func (t *Token) Is(s string) bool {
	if !t.Escaped {
		return string(t.Bytes) == s
	}
	// Only a token that was handed out can be short enough to be equal; the longest
	// escape is six bytes for one.
	if t.Bytes == nil || len(t.Bytes) > 6*len(s) {
		return false
	}
	return string(AppendUnescaped(nil, t.Bytes)) == s
}
