package wire

import (
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"
)

const (
	leastBuffer = 10 // 1 KiB, as a power of two
	mostBuffer  = 22 // 4 MiB; greater ones are made each time
)

// buffers is a pool of buffers of powers of two. gRPC's own has no size between 32 KiB and
// 1 MiB, where batches of answers about many endpoints are, and clears a buffer whole
// before it is written.
type buffers struct {
	pools [mostBuffer - leastBuffer + 1]sync.Pool // of *[]byte
}

// shared are the buffers of all codecs.
var shared mem.BufferPool = &buffers{}

// Get implements mem.BufferPool. What is in the buffer is of no meaning.
func (p *buffers) Get(length int) *[]byte {
	class := max(bits.Len(uint(max(length, 1)-1)), leastBuffer) //nolint:gosec // not negative
	if class > mostBuffer {
		b := make([]byte, length)
		return &b
	}
	if b, ok := p.pools[class-leastBuffer].Get().(*[]byte); ok {
		*b = (*b)[:length]
		return b
	}
	b := make([]byte, length, 1<<class)
	return &b
}

// Put implements mem.BufferPool.
func (p *buffers) Put(b *[]byte) {
	class := bits.Len(uint(cap(*b))) - 1 //nolint:gosec // not negative
	if class < leastBuffer || class > mostBuffer || cap(*b) != 1<<class {
		return // it is none of ours
	}
	p.pools[class-leastBuffer].Put(b)
}
