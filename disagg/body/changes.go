package body

import (
	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// changes are what a leg's body has otherwise than the client's.
type changes struct {
	o       *Outline
	cuts    []cut // in order, apart from each other
	dropped []string
	values  []valueOf
}

// valueOf is the new value of a member.
type valueOf struct {
	name, value string
	add         bool // also if there is no such member
}

// cut is a range of the client's bytes and what takes its place.
type cut struct {
	from, to int
	text     []byte
}

// set gives all members of that name the value, and adds one if there is none.
func (c *changes) set(name, value string) {
	c.values = append(c.values, valueOf{name, value, true})
}

// replace does so where there are any.
func (c *changes) replace(name, value string) {
	c.values = append(c.values, valueOf{name, value, false})
}

// drop removes all members of that name.
func (c *changes) drop(name string) { c.dropped = append(c.dropped, name) }

func (c *changes) drops(m *member) bool {
	for _, name := range c.dropped {
		if m.name == name {
			return true
		}
	}
	return false
}

// body makes the body.
func (c *changes) body() Body { return assemble(c.o.raw, 0, c.finish()) }

// finish returns all cuts.
func (c *changes) finish() []cut {
	kept := c.walk()
	end := cut{from: c.o.end, to: c.o.end}
	for _, v := range c.values {
		if v.add && find(c.o.members, v.name) == nil {
			end.text = appendMember(end.text, kept, v.name, v.value)
			kept = true
		}
	}
	if len(end.text) > 0 {
		c.cuts = append(c.cuts, end)
	}
	return c.cuts
}

// walk makes the cuts for the members that there are, and returns whether any is kept.
func (c *changes) walk() (kept bool) {
	in := c.o.members
	for i := 0; i < len(in); i++ {
		m := &in[i]
		if !c.drops(m) {
			kept = true
			c.change(m)
			continue
		}
		first := i
		for i+1 < len(in) && c.drops(&in[i+1]) {
			i++
		}
		switch {
		case i+1 < len(in): // with the comma after it
			c.cuts = append(c.cuts, cut{from: m.from, to: in[i+1].from})
		case first > 0: // with the one before it
			c.cuts = append(c.cuts, cut{from: in[first-1].to, to: in[i].to})
		default:
			c.cuts = append(c.cuts, cut{from: m.from, to: in[i].to})
		}
	}
	return kept
}

// change gives a member its new value, if it has one.
func (c *changes) change(m *member) {
	if m.name == "" {
		return
	}
	for _, v := range c.values {
		if v.name == m.name {
			c.cuts = append(c.cuts, cut{m.value, m.to, []byte(v.value)})
			return
		}
	}
}

// sample limits the tokens within sampling_params.
func (c *changes) sample(limits ...string) {
	m := find(c.o.members, keySampling)
	var fresh []byte
	for i, name := range limits {
		fresh = appendMember(fresh, i > 0, name, "1")
	}
	fresh = append(append([]byte{'{'}, fresh...), '}')
	if m == nil || m.kind != jsonscan.ObjectBegin {
		c.set(keySampling, string(fresh))
		return
	}
	inner := changes{o: &Outline{raw: c.o.raw[:m.to], members: c.o.sampling, end: m.to - 1}}
	for _, name := range limits {
		inner.set(name, "1")
	}
	c.set(keySampling, string(assemble(inner.o.raw, m.value, inner.finish()).Bytes()))
}

func appendMember(dst []byte, comma bool, name, value string) []byte {
	if comma {
		dst = append(dst, ',')
	}
	dst = append(append(append(dst, '"'), name...), '"', ':')
	return append(dst, value...)
}

// assemble makes a body of the client's bytes from the offset at on.
func assemble(raw []byte, at int, cuts []cut) Body {
	b := Body{parts: make([][]byte, 0, 2*len(cuts)+1)}
	for _, c := range cuts {
		b.add(raw[at:c.from])
		b.add(c.text)
		at = c.to
	}
	b.add(raw[at:])
	return b
}
