package jsonscan

// numberState is how much of a number was read.
type numberState uint8

const (
	numberStart numberState = iota
	numberMinus
	numberZero
	numberInt
	numberPoint
	numberFraction
	numberE
	numberSign
	numberExponent
)

// ends is true if the number may end here.
func (n numberState) ends() bool {
	return n == numberZero || n == numberInt || n == numberFraction || n == numberExponent
}

// after returns the state after byte c, and false if c is not part of the number.
func (n numberState) after(c byte) (numberState, bool) {
	digit := c >= '0' && c <= '9'
	switch n {
	case numberStart, numberMinus:
		switch {
		case c == '-' && n == numberStart:
			return numberMinus, true
		case c == '0':
			return numberZero, true
		case digit:
			return numberInt, true
		}
	case numberZero, numberInt:
		switch {
		case digit && n == numberInt:
			return numberInt, true
		case c == '.':
			return numberPoint, true
		case c == 'e' || c == 'E':
			return numberE, true
		}
	case numberPoint:
		return numberFraction, digit
	case numberFraction:
		switch {
		case digit:
			return numberFraction, true
		case c == 'e' || c == 'E':
			return numberE, true
		}
	case numberE:
		switch {
		case digit:
			return numberExponent, true
		case c == '+' || c == '-':
			return numberSign, true
		}
	case numberSign, numberExponent:
		return numberExponent, digit
	}
	return n, false
}

func (s *Scanner) readNumber() bool {
	for i, c := range s.p[s.i:] {
		next, ok := s.number.after(c)
		if ok {
			s.number = next
			continue
		}
		s.i += i
		if !s.number.ends() {
			return s.fail(s.i, "a digit was expected")
		}
		s.afterValue()
		return s.emit(Number, s.i)
	}
	s.hold()
	return false
}

func (s *Scanner) beginLiteral(k Kind) {
	s.begin(s.i, inLiteral)
	s.literal, s.letters = k, 0
}

func (s *Scanner) readLiteral() bool {
	word := "null"
	switch s.literal {
	case True:
		word = "true"
	case False:
		word = "false"
	}
	for s.i < len(s.p) {
		if s.p[s.i] != word[s.letters] {
			return s.fail(s.i, "a value was expected")
		}
		s.i++
		s.letters++
		if s.letters == len(word) {
			s.afterValue()
			return s.emit(s.literal, s.i)
		}
	}
	s.hold()
	return false
}
