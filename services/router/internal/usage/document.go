package usage

import (
	"bytes"
	"strconv"

	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// maxDepth is how deep answers may be nested to be read.
const maxDepth = 128

// place is where in a value the scanner is.
type place uint8

const (
	atTop     place = iota
	inRoot          // in the value
	inAnswer        // in the object "response" or "message" in it
	inUsage         // in "usage" of one of them
	inDetails       // in the details of the prompt's tokens in it
	inChoices       // in the list "choices" of the value
	inChoice        // in one of them
	inDelta         // in its "delta"
)

// documentReader reads one JSON value after the other: an answer, or the events of a
// stream.
type documentReader struct {
	scan      jsonscan.Scanner
	stream    bool
	counts    Counts
	generated bool
	done      bool

	place   place
	key     key
	usage   rawCounts // the usage object that is being read
	outer   place     // where it stands
	skipped int64     // where the array or object begins that is passed over, -1: none
}

func (d *documentReader) begin() {
	d.scan.Reset(maxDepth)
	d.place, d.key, d.skipped = atTop, other, -1
}

// feed reads on. What comes after an error is passed over.
func (d *documentReader) feed(p []byte) {
	if d.scan.Err() != nil {
		return
	}
	d.scan.Feed(p)
	for d.scan.Next() {
		t := &d.scan.Token
		switch {
		case t.Kind == jsonscan.Key:
			d.key = keyOf(t)
		case t.Begins():
			if !d.enter(t.Kind == jsonscan.ObjectBegin) {
				d.skipped = t.Start
				d.scan.Skip()
			}
		case t.Ends() && d.skipped >= 0:
			d.passed(t.Start == d.skipped+1)
			d.skipped = -1
		case t.Ends():
			d.leave()
		default:
			d.value(t)
		}
	}
}

// enter decides whether the array or object that begins is looked into.
func (d *documentReader) enter(object bool) bool {
	next := atTop
	switch {
	case d.place == inRoot && d.key == keyChoices && !object && d.stream && !d.generated:
		next = inChoices
	case !object:
	case d.place == atTop:
		next = inRoot
	case (d.place == inRoot || d.place == inAnswer) && d.key == keyUsage:
		d.outer, d.usage = d.place, noRawCounts()
		next = inUsage
	case d.place == inRoot && d.key == keyAnswer:
		next = inAnswer
	case d.place == inUsage && d.key == keyDetails:
		next = inDetails
	case d.place == inChoices:
		next = inChoice
	case d.place == inChoice && d.key == keyDelta:
		next = inDelta
	}
	if next == atTop {
		return false
	}
	d.place = next
	return true
}

// leave takes the end of an array or object that was looked into.
func (d *documentReader) leave() {
	switch d.place {
	case inUsage:
		d.counts.merge(d.usage.counts())
		d.place = d.outer
	case inDetails:
		d.place = inUsage
	case inChoice:
		d.place = inChoices
	case inDelta:
		d.place = inChoice
	case inRoot:
		d.place = atTop
	default:
		d.place = inRoot
	}
}

// passed takes an array or object that was not looked into.
func (d *documentReader) passed(empty bool) {
	if d.place == inDelta && d.key != keyRole && !empty {
		d.generated = true
	}
}

func (d *documentReader) value(t *jsonscan.Token) {
	text := t.Kind == jsonscan.String && t.End > t.Start
	switch d.place {
	case inRoot:
		if d.key == keyType && text && d.stream {
			d.event(t.Bytes)
		}
	case inChoice:
		if text && (d.key == keyText || d.key == keyFinish) {
			d.generated = true
		}
	case inDelta:
		if text && d.key != keyRole {
			d.generated = true
		}
	case inUsage, inDetails:
		d.usage.set(d.key, t)
	}
}

// event takes the type of an event of the responses and messages APIs.
func (d *documentReader) event(name []byte) {
	switch string(name) {
	case "content_block_delta":
		d.generated = true
	case "response.completed", "response.incomplete", "response.failed", "message_stop":
		d.done = true
	default:
		if bytes.HasSuffix(name, []byte(".delta")) {
			d.generated = true
		}
	}
}

// rawCounts are the figures as they stand in a usage object; negative: absent.
type rawCounts struct {
	prompt, output, total, cached int64
	cacheRead, cacheCreation      int64
}

func noRawCounts() rawCounts { return rawCounts{-1, -1, -1, -1, -1, -1} }

func (c *rawCounts) set(k key, t *jsonscan.Token) {
	if t.Kind != jsonscan.Number {
		return
	}
	n, err := strconv.ParseInt(string(t.Bytes), 10, 64)
	if err != nil || n < 0 {
		return
	}
	switch k {
	case keyPrompt:
		c.prompt = n
	case keyOutput:
		c.output = n
	case keyTotal:
		c.total = n
	case keyCached:
		c.cached = n
	case keyCacheRead:
		c.cacheRead = n
	case keyCacheCreation:
		c.cacheCreation = n
	}
}

// counts returns the figures in one convention. Anthropic's input_tokens are those
// that the cache had nothing to do with; ours are all.
func (c rawCounts) counts() Counts {
	out := Counts{Prompt: c.prompt, Cached: c.cached, Output: c.output, Total: c.total}
	if c.prompt >= 0 {
		out.Prompt += max(0, c.cacheRead) + max(0, c.cacheCreation)
	}
	if c.cacheRead >= 0 {
		out.Cached = c.cacheRead
	}
	return out
}
