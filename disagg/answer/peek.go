package answer

import (
	"bytes"

	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// Verdict is what a Peek has found.
type Verdict uint8

// Verdicts.
const (
	Undecided Verdict = iota // more is to be seen
	Accepted                 // the request is being answered
	Declined                 // too little of the prompt was cached
)

// thresholdReason is why an engine finishes that has found too little in its cache.
const thresholdReason = "cache_threshold"

const (
	// maxPeek is how many bytes are looked at at most.
	maxPeek = 64 << 10
	// maxEvents is how many events are: the first may only name the role.
	maxEvents = 2
)

// Peek looks at the beginning of an answer and keeps it.
type Peek struct {
	// Seen is what was looked at, to be passed on if the answer is the client's.
	Seen []byte

	events  bool
	read    int // of Seen
	counted int // events
}

// NewPeek returns a Peek at server-sent events, or at one JSON value.
func NewPeek(events bool) *Peek { return &Peek{events: events} }

// Feed looks at the next bytes; ended says that there are no more.
func (p *Peek) Feed(b []byte, ended bool) Verdict {
	p.Seen = append(p.Seen, b...)
	if !p.events {
		switch {
		case len(p.Seen) > maxPeek:
			return Accepted
		case ended:
			return verdictOf(p.Seen)
		}
		return Undecided
	}
	for {
		line, _, whole := bytes.Cut(p.Seen[p.read:], []byte{'\n'})
		if !whole && !ended {
			break
		}
		p.read += len(line)
		if whole {
			p.read++
		}
		if data, ok := bytes.CutPrefix(line, []byte(dataField)); ok {
			if p.counted++; verdictOf(data) == Declined {
				return Declined
			}
			if p.counted == maxEvents {
				return Accepted
			}
		}
		if !whole {
			return Accepted
		}
	}
	if len(p.Seen) > maxPeek {
		return Accepted
	}
	return Undecided
}

// verdictOf looks for the reason why the first choice has finished.
func verdictOf(doc []byte) Verdict {
	var s jsonscan.Scanner
	s.Reset(jsonscan.MaxDepth)
	s.Feed(doc)
	choices, reason := false, false
	for s.Next() {
		t := &s.Token
		switch {
		case t.Kind == jsonscan.Key && t.Depth == 1:
			choices = t.Is("choices")
		case t.Kind == jsonscan.Key && t.Depth == 3:
			reason = t.Is("finish_reason")
		case t.Begins() && (t.Depth == 0 || t.Depth <= 2 && choices):
		case t.Begins():
			s.Skip()
		case t.Kind == jsonscan.String && t.Depth == 3 && choices && reason && t.Is(thresholdReason):
			return Declined
		}
	}
	return Accepted
}
