package bus

import "time"

// forgetAfter is how long a silent publisher is remembered.
const forgetAfter = 60 * time.Second

// Meta is what the bus knows of a message beyond its contents.
type Meta struct {
	// Gap is how many messages of this publisher on this subject were lost right
	// before this one.
	Gap uint64
	// First says that this is the first message heard of the publisher, or the
	// first for 60 s. What came before is not known, so Gap is 0.
	First bool
	// Received is when the message was handed over. Its monotonic reading is what
	// ages are to be measured by.
	Received time.Time
}

// heard is how far one publisher has come.
type heard struct {
	sequence uint64
	at       time.Time
}

// tracker follows the sequences of all publishers of one subject.
type tracker struct {
	publishers map[string]*heard
	swept      time.Time
}

// observe takes note of a message. late is true for a message that was overtaken
// or repeated, which must not be handed over.
func (t *tracker) observe(publisher string, sequence uint64, now time.Time) (m Meta, late bool) {
	t.sweep(now)
	m.Received = now
	h := t.publishers[publisher]
	switch {
	case h == nil || now.Sub(h.at) >= forgetAfter:
		if t.publishers == nil {
			t.publishers = make(map[string]*heard)
		}
		t.publishers[publisher] = &heard{sequence, now}
		m.First = true
		return m, false
	case sequence <= h.sequence:
		h.at = now
		return m, true
	}
	m.Gap = sequence - h.sequence - 1
	h.sequence, h.at = sequence, now
	return m, false
}

// sweep forgets silent publishers, and is cheap enough to be called always.
func (t *tracker) sweep(now time.Time) {
	if now.Sub(t.swept) < forgetAfter/4 {
		return
	}
	t.swept = now
	for id, h := range t.publishers {
		if now.Sub(h.at) >= forgetAfter {
			delete(t.publishers, id)
		}
	}
}
