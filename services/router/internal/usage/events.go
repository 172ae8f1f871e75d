package usage

import "bytes"

const (
	dataField = "data:"
	doneWord  = "[DONE]"
)

// lineState is where in a line a stream of events is.
type lineState uint8

const (
	atStart  lineState = iota // in what may be "data:"
	inData                    // after it
	inOthers                  // in a line of another field
)

// eventSplitter finds the data of server-sent events. Lines end with LF or CR LF.
type eventSplitter struct {
	state lineState
	n     int                     // bytes of "data:" that were read
	head  [len(doneWord) + 1]byte // the first bytes of the data, spaces left out
	heads int
	line  [1]byte // a line feed, for d to read
}

func (s *eventSplitter) feed(d *documentReader, p []byte) {
	for len(p) > 0 {
		if s.state == atStart {
			s.start(d, p[0])
			p = p[1:]
			continue
		}
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		p = rest
		if s.state == inData {
			s.data(d, line, ended)
		}
		if ended {
			s.state, s.n = atStart, 0
		}
	}
}

// start takes a byte from the beginning of a line.
func (s *eventSplitter) start(d *documentReader, c byte) {
	switch {
	case c == dataField[s.n]:
		if s.n++; s.n == len(dataField) {
			s.state, s.heads = inData, 0
			// A value may go on over several lines of data, but servers also
			// leave out the empty line between values.
			if d.scan.Err() != nil || d.scan.Complete() {
				d.begin()
			}
		}
	case c == '\n':
		if s.n == 0 {
			d.begin() // the event has ended
		}
		s.n = 0
	case c == '\r' && s.n == 0:
	default:
		s.state = inOthers
	}
}

func (s *eventSplitter) data(d *documentReader, line []byte, ended bool) {
	for _, c := range line {
		if s.heads == len(s.head) {
			break
		}
		if c != ' ' && c != '\r' {
			s.head[s.heads] = c
			s.heads++
		}
	}
	d.feed(line)
	if !ended {
		return
	}
	s.line[0] = '\n'
	d.feed(s.line[:])
	if string(s.head[:s.heads]) == doneWord {
		d.done = true
	}
}
