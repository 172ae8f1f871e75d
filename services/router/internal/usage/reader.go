package usage

import "strings"

// format is how an answer is written.
type format uint8

const (
	opaque format = iota
	document
	events
)

// Reader reads one answer. Use New.
type Reader struct {
	format format
	doc    documentReader
	sse    eventSplitter
}

// New returns a Reader for an answer with these headers. Of an answer that is
// neither JSON nor server-sent events, or is compressed, it reads nothing.
func New(contentType, contentEncoding string) *Reader {
	r := &Reader{format: formatOf(contentType, contentEncoding)}
	r.doc.counts, r.doc.stream = None(), r.format == events
	r.doc.begin()
	return r
}

func formatOf(contentType, contentEncoding string) format {
	if contentEncoding != "" && !strings.EqualFold(contentEncoding, "identity") {
		return opaque
	}
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	switch {
	case media == "text/event-stream":
		return events
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		return document
	default:
		return opaque
	}
}

// Feed reads the next bytes of the answer. It keeps none of them.
func (r *Reader) Feed(p []byte) {
	switch r.format {
	case document:
		r.doc.feed(p)
	case events:
		r.sse.feed(&r.doc, p)
	}
}

// Streams is true for server-sent events that can be read.
func (r *Reader) Streams() bool { return r.format == events }

// Generated is true once a generated token was seen in a stream: text, reasoning, a
// tool call, or the reason why there are no more. An event that only names the role
// is none.
func (r *Reader) Generated() bool { return r.doc.generated }

// Done is true once a stream has said that it is complete.
func (r *Reader) Done() bool { return r.doc.done }

// Counts returns what has been reported so far.
func (r *Reader) Counts() Counts { return r.doc.counts }
