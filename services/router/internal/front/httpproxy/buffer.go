package httpproxy

import (
	"errors"
	"io"
	"math/bits"
	"sync"
	"sync/atomic"
)

// Buffers come in sizes of 4 KiB, 16 KiB, … 64 MiB.
const (
	smallestBuffer = 12 // as a power of two
	bufferSizes    = 8
)

// bufferPool holds buffers for request bodies, so that memory stays flat under large
// ones.
type bufferPool struct {
	sizes [bufferSizes]sync.Pool
	most  int64        // bytes that buffers in use may have together; 0: no limit
	used  atomic.Int64 // bytes that they have
}

// buffer is a request body. It goes back to the pool when everybody who held it has
// let go: the transport may still be sending it after the answer has come.
type buffer struct {
	data    []byte
	pool    *bufferPool
	holders atomic.Int32
}

// get returns a buffer, held once, that has room for size bytes.
func (p *bufferPool) get(size int) *buffer {
	class := sizeClass(size)
	var b *buffer
	if class < bufferSizes {
		b, _ = p.sizes[class].Get().(*buffer)
		size = 1 << (smallestBuffer + 2*class)
	}
	if b == nil {
		b = &buffer{pool: p, data: make([]byte, 0, size)}
	}
	b.data = b.data[:0]
	b.holders.Store(1)
	p.used.Add(int64(cap(b.data)))
	return b
}

// full says whether there is no room for another buffer of size bytes. Buffers that are
// taken at the same moment may go beyond the limit together, each once.
func (p *bufferPool) full(size int) bool {
	return p.most > 0 && p.used.Load()+int64(size) > p.most
}

func sizeClass(size int) int {
	if size <= 1<<smallestBuffer {
		return 0
	}
	return (bits.Len(uint(size-1)) - smallestBuffer + 1) / 2
}

func (b *buffer) hold() { b.holders.Add(1) }

func (b *buffer) release() {
	if b.holders.Add(-1) > 0 {
		return
	}
	b.pool.used.Add(-int64(cap(b.data)))
	if class := sizeClass(cap(b.data)); class < bufferSizes && cap(b.data) == 1<<(smallestBuffer+2*class) {
		b.pool.sizes[class].Put(b)
	}
}

// errBodyTooLarge says that a body is above the limit, errBuffersFull that all bodies
// together are.
var (
	errBodyTooLarge = errors.New("the body is too large")
	errBuffersFull  = errors.New("too many bytes of bodies are held")
)

// firstRead is how much room a body gets before any of it has come: its announced
// length is only a promise.
const firstRead = 256 << 10

// read reads a body of at most limit bytes whose length is announced, or -1. touch is
// called before each read.
func (p *bufferPool) read(body io.Reader, length, limit int64, touch func()) (*buffer, error) {
	size := int64(1 << smallestBuffer)
	if length > 0 {
		size = min(length+1, firstRead) // one more, so that the end is seen without growing
	}
	if p.full(int(size)) {
		return nil, errBuffersFull
	}
	b := p.get(int(size))
	for {
		if len(b.data) == cap(b.data) {
			if p.full(4 * cap(b.data)) {
				b.release()
				return nil, errBuffersFull
			}
			larger := p.get(len(b.data) + 1)
			larger.data = append(larger.data, b.data...)
			b.release()
			b = larger
		}
		touch()
		n, err := body.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		switch {
		case int64(len(b.data)) > limit:
			err = errBodyTooLarge
		case errors.Is(err, io.EOF):
			return b, nil
		}
		if err != nil {
			b.release()
			return nil, err
		}
	}
}

// bodyReader sends a buffer. Closing it lets go of the buffer, also while somebody
// is reading.
type bodyReader struct {
	mu     sync.Mutex
	b      *buffer
	sent   int
	closed bool
}

func newBodyReader(b *buffer) *bodyReader {
	b.hold()
	return &bodyReader{b: b}
}

// Read reads on.
func (r *bodyReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return 0, io.ErrClosedPipe
	case r.sent == len(r.b.data):
		return 0, io.EOF
	}
	n := copy(p, r.b.data[r.sent:])
	r.sent += n
	return n, nil
}

// Close lets go of the buffer.
func (r *bodyReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		r.b.release()
	}
	return nil
}
