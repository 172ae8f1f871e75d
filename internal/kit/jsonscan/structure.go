package jsonscan

// readStructure reads white space and what follows it: a bracket, comma or colon,
// or the first byte of a scalar. It returns true if that made a token.
func (s *Scanner) readStructure() bool {
	p, i := s.p, s.i
	for i < len(p) && isSpace(p[i]) {
		i++
	}
	s.i = i
	if i == len(p) {
		return false
	}
	c := p[i]
	switch s.state {
	case wantValue, wantValueOrEnd:
		return s.readValueStart(c)
	case wantKey, wantKeyOrEnd:
		switch {
		case c == '"':
			s.i++
			s.begin(s.i, inString)
			s.key = true
			return false
		case c == '}' && s.state == wantKeyOrEnd:
			return s.close(ObjectEnd)
		}
		return s.fail(i, "a key in quotes was expected")
	case wantColon:
		if c != ':' {
			return s.fail(i, "a colon was expected")
		}
		s.i++
		s.state = wantValue
		return false
	case wantComma:
		return s.readComma(c)
	default:
		return s.fail(i, "more follows after the value")
	}
}

func (s *Scanner) readValueStart(c byte) bool {
	switch {
	case c == '"':
		s.i++
		s.begin(s.i, inString)
		s.key = false
	case c == '{':
		return s.open(ObjectBegin)
	case c == '[':
		return s.open(ArrayBegin)
	case c == '-' || c >= '0' && c <= '9':
		s.begin(s.i, inNumber)
		s.number = numberStart
	case c == 't':
		s.beginLiteral(True)
	case c == 'f':
		s.beginLiteral(False)
	case c == 'n':
		s.beginLiteral(Null)
	case c == ']' && s.state == wantValueOrEnd:
		return s.close(ArrayEnd)
	default:
		return s.fail(s.i, "a value was expected")
	}
	return false
}

func (s *Scanner) readComma(c byte) bool {
	object := s.inObject()
	switch {
	case c == ',' && object:
		s.state = wantKey
	case c == ',':
		s.state = wantValue
	case c == '}' && object:
		return s.close(ObjectEnd)
	case c == ']' && !object:
		return s.close(ArrayEnd)
	default:
		return s.fail(s.i, "a comma or the end of the array or object was expected")
	}
	s.i++
	return false
}

func (s *Scanner) inObject() bool {
	d := s.depth - 1
	return s.objects[d/64]&(1<<(d%64)) != 0
}

func (s *Scanner) open(k Kind) bool {
	if s.depth >= s.maxDepth {
		s.err = ErrTooDeep
		return false
	}
	d := s.depth
	t := &s.Token
	*t = Token{Kind: k, Start: s.base + int64(s.i), End: s.base + int64(s.i) + 1, Depth: d}
	if k == ObjectBegin {
		s.objects[d/64] |= 1 << (d % 64)
		s.state = wantKeyOrEnd
	} else {
		s.objects[d/64] &^= 1 << (d % 64)
		s.state = wantValueOrEnd
	}
	s.depth++
	s.i++
	return true
}

func (s *Scanner) close(k Kind) bool {
	s.depth--
	s.Token = Token{Kind: k, Start: s.base + int64(s.i), End: s.base + int64(s.i) + 1, Depth: s.depth}
	s.i++
	s.afterValue()
	return true
}

// afterValue goes on after a value.
func (s *Scanner) afterValue() {
	s.state = wantComma
	if s.depth == 0 {
		s.state = done
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
