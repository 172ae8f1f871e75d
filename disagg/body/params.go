package body

import "github.com/pointsman/pointsman/internal/kit/jsonscan"

// Param is a member of kv_transfer_params.
type Param struct {
	Name string
	// Value is JSON.
	Value string
}

// Params is a JSON object of a few members, such as kv_transfer_params.
type Params struct{ o *Outline }

// ReadParams reads an object. The error is ErrNotObject, ErrTooMany, or what is wrong with
// the JSON.
func ReadParams(object []byte) (*Params, error) {
	o := &Outline{raw: object}
	var s jsonscan.Scanner
	s.Reset(jsonscan.MaxDepth)
	s.Feed(object)
	for s.Next() {
		switch t := &s.Token; {
		case t.Depth == 0 && t.Kind == jsonscan.ObjectBegin:
		case t.Depth == 0 && t.Kind == jsonscan.ObjectEnd:
			o.end = int(t.Start)
		case t.Depth == 0:
			return nil, ErrNotObject
		case t.Kind == jsonscan.Key:
			if len(o.members) == maxMembers {
				return nil, ErrTooMany
			}
			name := t.Bytes
			if t.Escaped {
				name = jsonscan.AppendUnescaped(nil, name)
			}
			o.members = append(o.members, member{name: string(name), from: int(t.Start) - 1})
		default:
			o.value(&s)
		}
	}
	if err := s.End(); err != nil {
		return nil, err
	}
	if o.end == 0 {
		return nil, ErrNotObject
	}
	return &Params{o}, nil
}

// value notes where the last member's value is.
func (o *Outline) value(s *jsonscan.Scanner) {
	t := &s.Token
	m := &o.members[len(o.members)-1]
	switch {
	case t.Ends():
		m.to = int(t.End)
		return
	case t.Begins():
		s.Skip()
	}
	m.value, m.to, m.kind = int(t.Start), int(t.End), t.Kind
	if t.Kind == jsonscan.String {
		m.value, m.to = m.value-1, m.to+1
	}
}

// Get returns the JSON of a member; nil if there is none.
func (p *Params) Get(name string) []byte {
	m := find(p.o.members, name)
	if m == nil {
		return nil
	}
	return p.o.raw[m.value:m.to]
}

// With returns the object with members set, and others added if they are missing. All else
// stays as it was.
func (p *Params) With(set, missing []Param) []byte {
	c := changes{o: p.o}
	for _, v := range set {
		c.set(v.Name, v.Value)
	}
	for _, v := range missing {
		if find(p.o.members, v.Name) == nil {
			c.set(v.Name, v.Value)
		}
	}
	return c.body().Bytes()
}
