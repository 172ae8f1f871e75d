package page

import "slices"

// Index is the set of metric names to look for. It is immutable.
//
// Nearly every line of a page is of no interest, so the index is made to say no
// from two bytes of the line: the first, and the one at which the names that share
// a first byte differ most.
type Index struct {
	names   []string
	byFirst [256]*group
}

// group is the names with one first byte.
type group struct {
	offset int           // of the byte that tells names apart
	byByte [256][]uint16 // indices into Index.names
	short  int           // length of the shortest name
}

// NewIndex returns an index of the names, which must not be empty strings. A name
// is afterwards known by its position among them.
func NewIndex(names ...string) *Index {
	x := &Index{names: slices.Clone(names)}
	groups := make(map[byte][]uint16)
	for i, n := range x.names {
		groups[n[0]] = append(groups[n[0]], uint16(i)) //nolint:gosec // a handful of names
	}
	for first, members := range groups {
		x.byFirst[first] = newGroup(x.names, members)
	}
	return x
}

func newGroup(names []string, members []uint16) *group {
	g := &group{short: len(names[members[0]])}
	for _, m := range members {
		g.short = min(g.short, len(names[m]))
	}
	best := 0
	for offset := range g.short {
		seen := make(map[byte]bool)
		for _, m := range members {
			seen[names[m][offset]] = true
		}
		if len(seen) > best {
			best, g.offset = len(seen), offset
		}
	}
	for _, m := range members {
		b := names[m][g.offset]
		g.byByte[b] = append(g.byByte[b], m)
	}
	return g
}

// match returns the position of the name that line begins with, and its length.
func (x *Index) match(line []byte) (name, length int, ok bool) {
	g := x.byFirst[line[0]]
	if g == nil || len(line) < g.short {
		return 0, 0, false
	}
	for _, i := range g.byByte[line[g.offset]] {
		n := x.names[i]
		if len(line) >= len(n) && string(line[:len(n)]) == n && (len(line) == len(n) || !nameByte(line[len(n)])) {
			return int(i), len(n), true
		}
	}
	return 0, 0, false
}

// find returns the position of a name that stands alone.
func (x *Index) find(name []byte) (int, bool) {
	if len(name) == 0 {
		return 0, false
	}
	i, length, ok := x.match(name)
	return i, ok && length == len(name)
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == ':'
}
