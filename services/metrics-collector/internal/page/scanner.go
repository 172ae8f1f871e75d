package page

import (
	"bytes"
	"errors"
)

// maxLabels is the most labels a sample may have.
const maxLabels = 128

// Errors of a line. They carry nothing of the page, which may hold anything.
var (
	errLabels    = errors.New("labels do not follow the format")
	errEscape    = errors.New("label value has an unknown escape")
	errMany      = errors.New("too many labels")
	errValue     = errors.New("value is not a number")
	errTimestamp = errors.New("timestamp is not a number")
	errTrailing  = errors.New("text after the sample")
)

// Label is one label of a sample. Both are valid until the next sample is read.
type Label struct{ Name, Value []byte }

// Sample is what one line says.
type Sample struct {
	// Labels in the order of the line.
	Labels []Label
	// Value may be NaN or infinite.
	Value float64
	// Timestamp is in the unit of the page: ms, or s in OpenMetrics.
	Timestamp    float64
	HasTimestamp bool
}

// Get returns the value of a label, and false if the sample lacks it.
func (s *Sample) Get(name string) ([]byte, bool) {
	for i := range s.Labels {
		if string(s.Labels[i].Name) == name {
			return s.Labels[i].Value, true
		}
	}
	return nil, false
}

// Scanner walks over a page. The zero value is ready for Reset; a used one keeps
// its memory for the next page.
type Scanner struct {
	index   *Index
	rest    []byte // lines to come
	line    []byte // of the current sample, after its name
	name    int
	quoted  bool // the name stood among the labels
	sample  Sample
	scratch []byte // unescaped label values
}

// Reset begins a page.
func (s *Scanner) Reset(index *Index, text []byte) {
	s.index, s.rest, s.line = index, text, nil
}

// Next goes to the next line with a wanted name, and returns false at the end.
func (s *Scanner) Next() bool {
	for len(s.rest) > 0 {
		line := s.rest
		if n := bytes.IndexByte(line, '\n'); n >= 0 {
			line, s.rest = line[:n], line[n+1:]
		} else {
			s.rest = nil
		}
		if len(line) == 0 {
			continue
		}
		switch c := line[0]; {
		case s.index.byFirst[c] != nil:
		case c == ' ' || c == '\t':
			if line = skipBlanks(line); len(line) == 0 {
				continue
			}
			if line[0] == '{' && s.openQuoted(line) {
				return true
			}
		case c == '{':
			if s.openQuoted(line) {
				return true
			}
			continue
		default:
			continue
		}
		if name, length, ok := s.index.match(line); ok {
			s.name, s.line, s.quoted = name, line[length:], false
			return true
		}
	}
	return false
}

// openQuoted looks at a line such as {"name", label="value"} 1 and takes it if the
// name is wanted.
func (s *Scanner) openQuoted(line []byte) bool {
	s.scratch = s.scratch[:0]
	rest := skipBlanks(line[1:])
	if len(rest) == 0 || rest[0] != '"' {
		return false
	}
	name, _, err := s.value(rest)
	if err != nil {
		return false
	}
	i, ok := s.index.find(name)
	if ok {
		s.name, s.line, s.quoted = i, line, true
	}
	return ok
}

// Name returns the position of the current line's name in the index.
func (s *Scanner) Name() int { return s.name }

// Sample reads the rest of the current line. The sample is valid until the next
// call of Next, Sample or Reset.
func (s *Scanner) Sample() (*Sample, error) {
	s.sample = Sample{Labels: s.sample.Labels[:0]}
	s.scratch = s.scratch[:0]
	rest := skipBlanks(s.line)
	if len(rest) > 0 && rest[0] == '{' {
		var err error
		if rest, err = s.labels(rest[1:], s.quoted); err != nil {
			return nil, err
		}
		rest = skipBlanks(rest)
	}
	token, rest := cutToken(rest)
	v, ok := number(token)
	if !ok {
		return nil, errValue
	}
	s.sample.Value = v
	if len(rest) > 0 && rest[0] != '#' {
		token, rest = cutToken(rest)
		if s.sample.Timestamp, ok = number(token); !ok {
			return nil, errTimestamp
		}
		s.sample.HasTimestamp = true
	}
	if len(rest) > 0 && rest[0] != '#' { // after # comes an exemplar
		return nil, errTrailing
	}
	return &s.sample, nil
}

// cutToken returns what stands before the next blank, and what follows the blanks.
func cutToken(b []byte) (token, rest []byte) {
	for i, c := range b {
		if c == ' ' || c == '\t' || c == '\r' {
			return b[:i], skipBlanks(b[i:])
		}
	}
	return b, nil
}

// skipBlanks drops blanks in front, and takes a CR for one.
func skipBlanks(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}
