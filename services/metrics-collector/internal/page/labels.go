package page

import "bytes"

// labels reads up to and including the closing brace and returns what follows it.
// The opening brace is read already. With quoted set, the first element is the name
// of the metric.
func (s *Scanner) labels(b []byte, quoted bool) (rest []byte, err error) {
	for first := true; ; first = false {
		b = skipBlanks(b)
		if len(b) > 0 && b[0] == '}' { // also after a comma, as the format allows
			return b[1:], nil
		}
		if quoted && first {
			if _, b, err = s.value(b); err != nil {
				return nil, err
			}
		} else if b, err = s.label(b); err != nil {
			return nil, err
		}
		b = skipBlanks(b)
		if len(b) == 0 {
			return nil, errLabels
		}
		switch b[0] {
		case ',':
			b = b[1:]
		case '}':
			return b[1:], nil
		default:
			return nil, errLabels
		}
	}
}

// label reads one name="value".
func (s *Scanner) label(b []byte) (rest []byte, err error) {
	if len(s.sample.Labels) == maxLabels {
		return nil, errMany
	}
	var l Label
	if len(b) > 0 && b[0] == '"' {
		if l.Name, b, err = s.value(b); err != nil {
			return nil, err
		}
	} else {
		n := 0
		for n < len(b) && nameByte(b[n]) {
			n++
		}
		l.Name, b = b[:n], b[n:]
	}
	if len(l.Name) == 0 {
		return nil, errLabels
	}
	if b = skipBlanks(b); len(b) == 0 || b[0] != '=' {
		return nil, errLabels
	}
	if l.Value, b, err = s.value(skipBlanks(b[1:])); err != nil {
		return nil, err
	}
	s.sample.Labels = append(s.sample.Labels, l)
	return b, nil
}

// value reads a quoted string and returns it without quotes and escapes.
func (s *Scanner) value(b []byte) (value, rest []byte, err error) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, errLabels
	}
	b = b[1:]
	end := bytes.IndexByte(b, '"')
	if end < 0 {
		return nil, nil, errLabels
	}
	if bytes.IndexByte(b[:end], '\\') < 0 {
		return b[:end], b[end+1:], nil
	}
	return s.unescape(b)
}

// unescape reads a string with escapes up to its closing quote. A scratch that
// grows leaves earlier values in the old memory, where they stay valid.
func (s *Scanner) unescape(b []byte) (value, rest []byte, err error) {
	start := len(s.scratch)
	for i := 0; i < len(b); i++ {
		switch c := b[i]; c {
		case '"':
			return s.scratch[start:len(s.scratch):len(s.scratch)], b[i+1:], nil
		case '\\':
			i++
			if i == len(b) {
				return nil, nil, errLabels
			}
			switch b[i] {
			case '\\', '"':
				s.scratch = append(s.scratch, b[i])
			case 'n':
				s.scratch = append(s.scratch, '\n')
			default:
				return nil, nil, errEscape
			}
		default:
			s.scratch = append(s.scratch, c)
		}
	}
	return nil, nil, errLabels
}
