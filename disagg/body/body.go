package body

import (
	"io"
	"sync"
)

// Body is what a leg sends. It is immutable and refers to the client's bytes.
type Body struct {
	parts [][]byte
	size  int64
}

func (b *Body) add(p []byte) {
	if len(p) > 0 {
		b.parts = append(b.parts, p)
		b.size += int64(len(p))
	}
}

// Size returns its length in bytes.
func (b Body) Size() int64 { return b.size }

// Bytes returns a copy in one piece.
func (b Body) Bytes() []byte { return b.AppendTo(make([]byte, 0, b.size)) }

// AppendTo appends it to dst.
func (b Body) AppendTo(dst []byte) []byte {
	for _, p := range b.parts {
		dst = append(dst, p...)
	}
	return dst
}

// Reader returns a reader of it. release, which may be nil, is called once, when the
// reader is closed: nobody reads the client's bytes through it any more.
func (b Body) Reader(release func()) io.ReadCloser { return &reader{parts: b.parts, release: release} }

// reader reads a body. Closing it is safe also while somebody reads.
type reader struct {
	mu      sync.Mutex
	parts   [][]byte
	sent    int // of the first part
	closed  bool
	release func()
}

// Read reads on.
func (r *reader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return 0, io.ErrClosedPipe
	case len(r.parts) == 0:
		return 0, io.EOF
	}
	n := 0
	for n < len(p) && len(r.parts) > 0 {
		k := copy(p[n:], r.parts[0][r.sent:])
		n, r.sent = n+k, r.sent+k
		if r.sent == len(r.parts[0]) {
			r.parts, r.sent = r.parts[1:], 0
		}
	}
	return n, nil
}

// Close lets go of the client's bytes.
func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed, r.parts = true, nil
		if r.release != nil {
			r.release()
		}
	}
	return nil
}
