package answer

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// Round is the answer of a chat that was decoded in one of several rounds.
type Round struct {
	// Text is its content, as within a JSON string.
	Text []byte
	// Cut is true if it ended because its limit was reached.
	Cut bool
	// Only is true if it has nothing besides its text that a next round would have to go on
	// with, such as reasoning.
	Only bool
	// Generated is how many tokens it has. Negative: not reported.
	Generated int64

	raw                                      []byte
	choice, message, content, reason, halted span
	usage                                    span
	top                                      map[string]span
	counts                                   []counted
}

// span is a range of bytes.
type span struct{ from, to int }

func (s span) of(raw []byte) []byte { return raw[s.from:s.to] }

// counted is a number of the usage that grows with what is generated.
type counted struct {
	name  string // with that of the object around it
	at    span
	value int64
}

var errNoAnswer = errors.New("the answer has no message of one choice")

// ReadRound reads an answer, which must have one choice. It refers to its bytes.
func ReadRound(raw []byte) (*Round, error) {
	r := &Round{raw: raw, Generated: -1, Only: true, top: make(map[string]span)}
	s := roundReader{r: r}
	s.s.Reset(jsonscan.MaxDepth)
	s.s.Feed(raw)
	for s.s.Next() {
		s.token(&s.s.Token)
	}
	if err := s.s.End(); err != nil {
		return nil, err
	}
	if s.choices != 1 || r.message.to == 0 {
		return nil, errNoAnswer
	}
	return r, nil
}

// roundReader goes through an answer. Depths: members of the answer are within 1, choices
// and the usage's members 2, a choice's members and details 3, a message's 4.
type roundReader struct {
	s       jsonscan.Scanner
	r       *Round
	keys    [5]string
	begins  [5]int
	choices int
}

func (r *roundReader) token(t *jsonscan.Token) {
	switch {
	case t.Kind == jsonscan.Key:
		if t.Depth < len(r.keys) {
			r.keys[t.Depth] = keyText(t)
		}
	case t.Begins():
		r.begin(t)
	case t.Ends():
		if t.Depth < len(r.begins) {
			r.value(t, span{r.begins[t.Depth], int(t.End)})
		}
	default:
		at := span{int(t.Start), int(t.End)}
		if t.Kind == jsonscan.String {
			at = span{at.from - 1, at.to + 1}
		}
		r.value(t, at)
	}
}

func (r *roundReader) begin(t *jsonscan.Token) {
	object := t.Kind == jsonscan.ObjectBegin
	if t.Depth < len(r.begins) {
		r.begins[t.Depth] = int(t.Start)
	}
	switch {
	case t.Depth == 0, t.Depth == 1 && (r.keys[1] == "choices" && !object || r.keys[1] == "usage" && object):
	case t.Depth == 2 && object && r.keys[1] == "choices":
		r.choices++
		r.keys[3] = ""
	case t.Depth == 3 && object && r.keys[1] == "choices" && r.keys[3] == "message":
		r.r.content, r.r.Text = span{}, nil // of two messages the last one counts
	case t.Depth == 2 && object && r.keys[1] == "usage":
	default:
		r.s.Skip()
	}
}

// value takes a value that has ended.
func (r *roundReader) value(t *jsonscan.Token, at span) {
	switch {
	case t.Depth == 1:
		r.r.top[r.keys[1]] = at
		if r.keys[1] == "usage" {
			r.r.usage = at
		}
	case r.keys[1] == "usage":
		r.count(t, at)
	case r.keys[1] != "choices":
	case t.Depth == 2 && t.Kind == jsonscan.ObjectEnd:
		r.r.choice = at
	case t.Depth == 2:
		r.choices++ // it is none, and not the only one
	case t.Depth == 3:
		r.member(t, at)
	case t.Depth == 4 && r.keys[3] == "message":
		switch {
		case r.keys[4] == "content" && t.Kind == jsonscan.String:
			r.r.content, r.r.Text = at, r.r.raw[at.from+1:at.to-1]
		case r.keys[4] == "content" && t.Kind == jsonscan.Null:
			r.r.content, r.r.Text = at, nil
		case r.keys[4] == "role":
		default:
			r.r.Only = r.r.Only && hollow(at.of(r.r.raw))
		}
	}
}

func (r *roundReader) member(t *jsonscan.Token, at span) {
	switch r.keys[3] {
	case "message":
		if t.Kind == jsonscan.ObjectEnd {
			r.r.message = at
		}
	case "finish_reason":
		r.r.reason, r.r.Cut = at, t.Kind == jsonscan.String && t.Is("length")
	case "stop_reason":
		r.r.halted = at
	}
}

func (r *roundReader) count(t *jsonscan.Token, at span) {
	name := r.keys[2]
	switch {
	case t.Depth == 2 && (name == "completion_tokens" || name == "total_tokens" || name == "reasoning_tokens"):
	case t.Depth == 3 && name == "completion_tokens_details":
		name += "." + r.keys[3]
	default:
		return
	}
	n := count(t)
	if n < 0 {
		return
	}
	if name == "completion_tokens" {
		r.r.Generated = n
	}
	r.r.counts = append(r.r.counts, counted{name, at, n})
}

// hollow is true for a value that says nothing.
func hollow(value []byte) bool {
	switch string(bytes.TrimSpace(value)) {
	case "null", `""`, "[]", "{}", "false":
		return true
	}
	return len(value) > 1 && (value[0] == '[' || value[0] == '{') && len(bytes.TrimSpace(value[1:len(value)-1])) == 0
}

// replacements are what a text ends with that was cut within a character.
var replacements = [...]string{string(utf8.RuneError), `\ufffd`, `\uFFFD`}

// Mend leaves out of a text that was cut what is left of a character that was cut, as long
// as something is left of the text: the next round begins with that character.
func (r *Round) Mend() {
	text := r.Text
	for again := true; again; {
		again = false
		for _, end := range replacements {
			t, ok := bytes.CutSuffix(text, []byte(end))
			if behind := len(t) - len(bytes.TrimRight(t, `\`)); ok && (end[0] != '\\' || behind%2 == 0) { // else it is a backslash, and letters
				text, again = t, true
			}
		}
	}
	if len(text) > 0 {
		r.Text = text
	}
}

// Merge makes one answer of all rounds: the first one's, with the choice of the last one,
// the text of all, and a usage that counts what all have generated; the prompt is the first
// one's, since the others' have the text of those before.
func Merge(rounds []*Round) []byte {
	first, last := rounds[0], rounds[len(rounds)-1]
	pieces := first.summed(rounds, span{0, len(first.raw)})
	choice := last.withText(last.choice, all(rounds))
	pieces = append(pieces, piece{first.choice, choice})
	return join(nil, first.raw, span{0, len(first.raw)}, pieces)
}

// all is the text of all rounds.
func all(rounds []*Round) []byte {
	var text []byte
	for _, r := range rounds {
		text = append(text, r.Text...)
	}
	return text
}

// Usage is the usage of all rounds; nil if they have none.
func Usage(rounds []*Round) []byte {
	first := rounds[0]
	if first.usage.to == 0 {
		return nil
	}
	return join(nil, first.raw, first.usage, first.summed(rounds, first.usage))
}

// piece is what takes the place of a range of bytes.
type piece struct {
	at   span
	text []byte
}

// summed are the numbers of the usage that are others for all rounds.
func (r *Round) summed(rounds []*Round, within span) (out []piece) {
	var more int64
	for _, x := range rounds[1:] {
		more += max(x.Generated, 0)
	}
	for _, c := range r.counts {
		if c.at.from < within.from || c.at.to > within.to {
			continue
		}
		sum := c.value
		if c.name == "total_tokens" {
			sum += more
		} else {
			for _, x := range rounds[1:] {
				sum += x.counted(c.name)
			}
		}
		out = append(out, piece{c.at, strconv.AppendInt(nil, sum, 10)})
	}
	return out
}

func (r *Round) counted(name string) int64 {
	for _, c := range r.counts {
		if c.name == name {
			return c.value
		}
	}
	return 0
}

// withText is a part of an answer that has the message, with the text as its content.
func (r *Round) withText(part span, text []byte) []byte {
	quoted := append(append([]byte{'"'}, text...), '"')
	switch {
	case len(text) == 0:
		return part.of(r.raw)
	case r.content.to > 0:
		return join(nil, r.raw, part, []piece{{r.content, quoted}})
	}
	member := append([]byte(`"content":`), quoted...)
	if !hollow(r.message.of(r.raw)) {
		member = append([]byte{','}, member...)
	}
	end := r.message.to - 1
	return join(nil, r.raw, part, []piece{{span{end, end}, member}})
}

// join appends the range of raw, with pieces put in, in any order.
func join(dst, raw []byte, within span, pieces []piece) []byte {
	for i := range pieces { // few: sorted by insertion
		for k := i; k > 0 && pieces[k].at.from < pieces[k-1].at.from; k-- {
			pieces[k], pieces[k-1] = pieces[k-1], pieces[k]
		}
	}
	at := within.from
	for _, p := range pieces {
		dst = append(append(dst, raw[at:p.at.from]...), p.text...)
		at = p.at.to
	}
	return append(dst, raw[at:within.to]...)
}

// Event appends the event that tells a stream's client of a round, to the answer that the
// first round has begun. role says that it is the first. It ends the answer if ends. usage
// says that the client hears of a usage, which comes later.
func (r *Round) Event(dst []byte, first *Round, ends, usage bool) []byte {
	dst = first.head(dst)
	dst = append(dst, `"choices":[{"index":0,"delta":`...)
	if r == first {
		dst = appendCompact(dst, r.withText(r.message, r.Text))
	} else {
		dst = append(append(append(dst, `{"content":"`...), r.Text...), `"}`...)
	}
	dst = append(dst, `,"logprobs":null,"finish_reason":`...)
	switch {
	case !ends || r.reason.to == 0:
		dst = append(dst, "null"...)
	default:
		dst = append(dst, r.reason.of(r.raw)...)
		if r.halted.to > 0 {
			dst = appendCompact(append(dst, `,"stop_reason":`...), r.halted.of(r.raw))
		}
	}
	dst = append(dst, "}]"...)
	if usage {
		dst = append(dst, `,"usage":null`...)
	}
	return append(dst, "}\n\n"...)
}

// End appends the event that ends an answer whose last round has been told.
func (r *Round) End(dst []byte, first *Round, usage bool) []byte {
	dst = append(first.head(dst), `"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":`...)
	dst = append(append(dst, r.reason.of(r.raw)...), "}]"...)
	if usage {
		dst = append(dst, `,"usage":null`...)
	}
	return append(dst, "}\n\n"...)
}

// UsageEvent appends the event that tells the usage of all rounds.
func UsageEvent(dst []byte, rounds []*Round) []byte {
	u := Usage(rounds)
	if u == nil {
		return dst
	}
	dst = append(rounds[0].head(dst), `"choices":[],"usage":`...)
	return append(appendCompact(dst, u), "}\n\n"...)
}

// Done is the event that ends a stream.
const Done = "data: [DONE]\n\n"

// head appends the beginning of an event.
func (r *Round) head(dst []byte) []byte {
	dst = append(dst, `data: {`...)
	if id, ok := r.top["id"]; ok {
		dst = append(appendCompact(append(dst, `"id":`...), id.of(r.raw)), ',')
	}
	dst = append(dst, `"object":"chat.completion.chunk",`...)
	for _, name := range [...]string{"created", "model", "system_fingerprint", "service_tier"} {
		if v, ok := r.top[name]; ok {
			dst = append(append(append(dst, '"'), name...), `":`...)
			dst = append(appendCompact(dst, v.of(r.raw)), ',')
		}
	}
	return dst
}

// appendCompact appends a JSON value in one line.
func appendCompact(dst, value []byte) []byte {
	b := bytes.NewBuffer(dst)
	if json.Compact(b, value) != nil {
		return append(dst, "null"...)
	}
	return b.Bytes()
}
