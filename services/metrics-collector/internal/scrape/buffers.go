package scrape

import "sync"

const (
	firstBuffer = 64 << 10
	// mostKeptBuffer is the largest buffer that is kept for other pages.
	mostKeptBuffer = 1 << 20
)

// buffers are lent to pages while they are read.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *[]byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return p
	}
	buf := make([]byte, 0, firstBuffer)
	return &buf
}

func (b *buffers) put(buf *[]byte) {
	if cap(*buf) <= mostKeptBuffer {
		b.pool.Put(buf)
	}
}
