package index

import "sync/atomic"

const (
	chunkBits = 13
	chunkLen  = 1 << chunkBits
)

// arena is an array that grows by chunks, so that what is in it never moves: one
// writer may grow it while others read.
type arena[T any] struct {
	chunks atomic.Pointer[[]*[chunkLen]T]
}

func (a *arena[T]) init() { a.chunks.Store(new([]*[chunkLen]T)) }

// at returns element i, which must be within what has been grown.
func (a *arena[T]) at(i uint32) *T {
	return &(*a.chunks.Load())[i>>chunkBits][i&(chunkLen-1)]
}

// run returns n elements from i on, which must be in one chunk.
func (a *arena[T]) run(i, n uint32) []T {
	at := i & (chunkLen - 1)
	return (*a.chunks.Load())[i>>chunkBits][at : at+n]
}

// len returns the number of elements.
func (a *arena[T]) len() uint32 { return uint32(len(*a.chunks.Load())) << chunkBits }

// grow adds one chunk of zeros. Readers that hold the old list see its old length.
func (a *arena[T]) grow() {
	grown := append(*a.chunks.Load(), new([chunkLen]T))
	a.chunks.Store(&grown)
}
