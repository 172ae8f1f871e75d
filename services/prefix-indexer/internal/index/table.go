package index

import "sync/atomic"

const (
	// shards is how many tables a forest has. Each grows by itself, so that nobody waits
	// for all of them at once.
	shards = 1024

	lineLen   = 8
	lineBytes = 64
	// fullLine is how many of a line's entries are in use, on average, when the table
	// grows, times two. The more there are, the more lines are full and send everybody to
	// the next: with 13 an add takes a fifth longer, for 2 bytes less.
	fullLine = 11
)

// line is one cache line of entries: a block in the low half, its tag in the high half;
// 0 is free. By the tag nearly every look-up is decided without going to a block. What
// readers may see is changed atomically.
type line [lineLen]uint64

// shard finds blocks by hash. A block is in the line that its tag says, or in the next
// one that was not full. So whoever meets a line with a free entry need not go on.
type shard struct {
	lines atomic.Pointer[[]line] // replaced when it grows
	n     uint32                 // entries; for the writer
}

// mix spreads hashes of schemes whose low bits are not random. The high half is the tag,
// the low bits are the shard.
func mix(hash uint64) uint64 {
	hash *= 0x9e3779b97f4a7c15
	return hash ^ hash>>32
}

// tagOf returns the tag of a mixed hash, which is not that of a free entry.
func tagOf(mixed uint64) uint32 { return uint32(mixed>>32) | 1 }

func entryOf(tag, id uint32) uint64 { return uint64(tag)<<32 | uint64(id) }

// home returns the line where a tag is looked for first.
func home(lines []line, tag uint32) int { return int(uint64(tag) * uint64(len(lines)) >> 32) }

// after returns the line after another; the first follows the last.
func after(lines []line, at int) int {
	if at++; at == len(lines) {
		return 0
	}
	return at
}

// scan returns the last block in the line whose tag it is, 0 if none, and the last free
// entry, -1 if none. It neither stops nor turns anywhere: no processor could foretell where.
func (l *line) scan(tag uint32) (id uint32, free int) {
	free = -1
	for i := range l {
		e := atomic.LoadUint64(&l[i])
		if e == 0 {
			free = i
		}
		if uint32(e>>32) == tag {
			id = uint32(e)
		}
	}
	return id, free
}

// index returns where in the line an entry is, and the last free one; -1 if none.
func (l *line) index(entry uint64) (at, free int) {
	at, free = -1, -1
	for i := range l {
		e := atomic.LoadUint64(&l[i])
		if e == 0 {
			free = i
		}
		if e == entry {
			at = i
		}
	}
	return at, free
}

// full says whether there is no room for one entry more.
func (s *shard) full(lines []line) bool { return (s.n+1)*2 > uint32(len(lines))*fullLine }

// grow makes a table larger, and returns its lines and the bytes that this took from the
// heap.
func (s *shard) grow(which uint32) (_ []line, grown int64) {
	old := *s.lines.Load()
	// An eighth more, give or take a little that differs from shard to shard: else all
	// would grow at about the same time, since all have about the same number of entries.
	size := len(old) + 1 + len(old)*3/32
	size += int(uint64(len(old)) * (mix(uint64(size)*shards+uint64(which)) >> 32) >> 36)
	lines, used := make([]line, size), make([]uint8, size)
	for i := range old {
		for _, e := range old[i] {
			if e == 0 {
				continue
			}
			at := home(lines, uint32(e>>32))
			for used[at] == lineLen {
				at = after(lines, at)
			}
			lines[at][used[at]] = e
			used[at]++
		}
	}
	s.lines.Store(&lines)
	return lines, int64(size-len(old)) * lineBytes
}

// remove takes out an entry, which must be there. generation goes up in the middle of
// every move, when an entry is in both places.
func remove(lines []line, entry uint64, generation *atomic.Uint64) {
	at := home(lines, uint32(entry>>32))
	i, free := lines[at].index(entry)
	for i < 0 {
		at = after(lines, at)
		i, free = lines[at].index(entry)
	}
	gap := &lines[at][i]
	if free >= 0 {
		atomic.StoreUint64(gap, 0)
		return
	}
	// The line was full, so others may have had to pass it. Up to the next line with
	// room, those come back.
	for next, distance := after(lines, at), 1; ; next, distance = after(lines, next), distance+1 {
		l := &lines[next]
		free, _ := l.index(0)
		for j := range l {
			e := l[j]
			if e == 0 || past(lines, next, uint32(e>>32)) < distance {
				continue
			}
			atomic.StoreUint64(gap, e)
			generation.Add(1)
			gap, distance = &l[j], 0
			break
		}
		if free >= 0 || next == at {
			atomic.StoreUint64(gap, 0)
			return
		}
	}
}

// past returns how many lines beyond its home an entry in a line is.
func past(lines []line, at int, tag uint32) int {
	if at -= home(lines, tag); at < 0 {
		at += len(lines)
	}
	return at
}
