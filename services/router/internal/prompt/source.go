package prompt

import "sort"

// source is the body as it came, in chunks. Nothing is copied but what is cut.
type source struct {
	chunks [][]byte
	starts []int64
	end    int64
}

func (s *source) reset() {
	clear(s.chunks)
	s.chunks, s.starts, s.end = s.chunks[:0], s.starts[:0], 0
}

func (s *source) add(p []byte) {
	s.chunks = append(s.chunks, p)
	s.starts = append(s.starts, s.end)
	s.end += int64(len(p))
}

// find returns the index of the chunk that holds the byte at offset.
func (s *source) find(offset int64) int {
	if last := len(s.starts) - 1; last < 0 || s.starts[last] <= offset {
		return last
	}
	return sort.Search(len(s.starts), func(i int) bool { return s.starts[i] > offset }) - 1
}

// span returns the bytes from start to end: a slice of a chunk if one holds them
// all, else a copy.
func (s *source) span(start, end int64) []byte {
	if start >= end {
		return nil
	}
	i := s.find(start)
	at := start - s.starts[i]
	if c := s.chunks[i]; end-s.starts[i] <= int64(len(c)) {
		return c[at : end-s.starts[i] : end-s.starts[i]]
	}
	joined := make([]byte, 0, end-start)
	for ; start < end; i++ {
		c := s.chunks[i][start-s.starts[i]:]
		c = c[:min(int64(len(c)), end-start)]
		joined = append(joined, c...)
		start += int64(len(c))
	}
	return joined
}

// pieces calls f with the slices that make up the bytes from start to end.
func (s *source) pieces(start, end int64, f func(p []byte)) {
	for i := s.find(start); start < end; i++ {
		c := s.chunks[i][start-s.starts[i]:]
		c = c[:min(int64(len(c)), end-start)]
		f(c[:len(c):len(c)])
		start += int64(len(c))
	}
}
