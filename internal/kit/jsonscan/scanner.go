package jsonscan

// MaxDepth is the greatest depth that a Scanner can be told to allow.
const MaxDepth = 1024

type state uint8

const (
	wantValue state = iota
	wantValueOrEnd
	wantKey
	wantKeyOrEnd
	wantColon
	wantComma
	done
	inString
	inEscape
	inHex
	inNumber
	inLiteral
)

// Scanner reads one JSON value from chunks of bytes:
//
//	s.Reset(depth)
//	for each chunk {
//		s.Feed(chunk)
//		for s.Next() {
//			// look at s.Token
//		}
//	}
//	err := s.End()
//
// The zero Scanner allows no nesting at all; call Reset first.
type Scanner struct {
	// Token is the token that Next found.
	Token Token

	p     []byte // the chunk
	i     int    // the next byte of p
	base  int64  // offset of p[0]
	tok   int    // where the token began in p; negative if in an earlier chunk
	state state
	err   error

	depth, maxDepth int
	skip            int // the depth at which tokens count again, -1: they do
	objects         [MaxDepth / 64]uint64

	// The token that is being read.
	key      bool // the string is a key
	escaped  bool
	shrink   int64
	hex      rune  // digits of \u so far
	digits   int   // how many
	hiEnd    int64 // where an escaped high surrogate ended, -1: none
	number   numberState
	literal  Kind
	letters  int // letters of the literal so far
	held     [holdMax]byte
	heldLen  int
	overflow bool // held did not suffice
}

// holdMax is how long a token may be that is handed out though it was cut.
const holdMax = 256

// Reset makes the scanner ready for a new value in which arrays and objects are
// nested at most maxDepth deep, 1 to MaxDepth.
func (s *Scanner) Reset(maxDepth int) {
	s.Token = Token{}
	s.p, s.i, s.base, s.tok = nil, 0, 0, 0
	s.state, s.err = wantValue, nil
	s.depth, s.maxDepth, s.skip = 0, min(maxDepth, MaxDepth), -1
	s.hiEnd = -1
}

// Feed gives the scanner the next chunk. The previous one must have been read to its
// end, that is, Next has returned false. The scanner reads p until the next Feed.
func (s *Scanner) Feed(p []byte) {
	s.base += int64(len(s.p))
	s.p, s.i = p, 0
}

// Next goes to the next token of the chunk. It returns false when the chunk is
// used up or the input is not JSON; Err tells.
func (s *Scanner) Next() bool {
	for s.err == nil {
		var found bool
		switch s.state {
		case inString, inEscape, inHex:
			found = s.readString()
		case inNumber:
			found = s.readNumber()
		case inLiteral:
			found = s.readLiteral()
		default:
			found = s.readStructure()
		}
		if found {
			if s.skip < 0 {
				return true
			}
			if s.depth == s.skip && s.Token.Ends() {
				s.skip = -1
				return true
			}
			continue
		}
		if s.i >= len(s.p) {
			if s.state >= inString && s.tok >= 0 {
				s.hold()
			}
			return false
		}
	}
	return false
}

// Skip makes the next token be the end of the array or object that has just begun.
// What is inside is checked all the same.
func (s *Scanner) Skip() { s.skip = s.depth - 1 }

// Err returns why the input is not JSON, nil if it may be.
func (s *Scanner) Err() error { return s.err }

// Complete is true if the value has ended; only white space may follow.
func (s *Scanner) Complete() bool { return s.err == nil && s.state == done }

// End says that no further bytes come, and returns why the input is not a JSON
// value, nil if it is one. A number that stands alone ends here, without a token.
func (s *Scanner) End() error {
	switch {
	case s.err != nil:
	case s.state == done:
	case s.state == inNumber && s.depth == 0 && s.number.ends():
		s.state = done
	default:
		s.fail(len(s.p), "it ends too early")
	}
	return s.err
}

func (s *Scanner) fail(i int, problem string) bool {
	s.err = &SyntaxError{Offset: s.base + int64(i), Problem: problem}
	return false
}

// begin starts a token at p[i].
func (s *Scanner) begin(i int, st state) {
	s.tok, s.state = i, st
	s.escaped, s.shrink = false, 0
	s.heldLen, s.overflow = 0, false
	s.Token.Start = s.base + int64(i)
}

// hold keeps what the chunk has of an unfinished token.
func (s *Scanner) hold() {
	s.i = len(s.p)
	from := max(s.tok, 0)
	s.tok = -1
	if s.overflow || len(s.p)-from > holdMax-s.heldLen {
		s.overflow = true
		return
	}
	s.heldLen += copy(s.held[s.heldLen:], s.p[from:])
}

// emit finishes the token before p[end].
func (s *Scanner) emit(k Kind, end int) bool {
	t := &s.Token
	t.Kind, t.End, t.Depth = k, s.base+int64(end), s.depth
	t.Escaped, t.Shrink = s.escaped, s.shrink
	switch {
	case s.tok >= 0:
		t.Bytes = s.p[s.tok:end]
	case s.overflow || end > holdMax-s.heldLen:
		t.Bytes = nil
	default:
		n := copy(s.held[s.heldLen:], s.p[:end])
		t.Bytes = s.held[:s.heldLen+n]
	}
	return true
}
