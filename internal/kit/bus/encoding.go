package bus

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
)

// generated is what messages have that encode without reflection.
type generated interface {
	SizeVT() int
	MarshalToSizedBufferVT(b []byte) (int, error)
}

// perRequest says whether messages of the subject come with every request. Those go by
// generated code, which does not check that strings are UTF-8: what they hold is only
// looked up and never shown.
func perRequest(s Subject) bool { return s == Outcome || s == Prefix }

// encode appends a message to b, which is empty.
func encode(s Subject, b []byte, m proto.Message) ([]byte, error) {
	g, ok := m.(generated)
	if !ok || !perRequest(s) {
		return proto.MarshalOptions{}.MarshalAppend(b, m)
	}
	size := g.SizeVT()
	b = slices.Grow(b, size)[:size]
	n, err := g.MarshalToSizedBufferVT(b)
	return b[size-n:], err
}

// decode reads a message into m, which is empty unless it is no protobuf message.
func decode(s Subject, b []byte, m any) error {
	p, ok := m.(proto.Message)
	if ok && !perRequest(s) {
		return proto.Unmarshal(b, p)
	}
	if g, ok := m.(interface{ UnmarshalVT(b []byte) error }); ok {
		return g.UnmarshalVT(b)
	}
	if !ok {
		return fmt.Errorf("%T cannot be decoded", m)
	}
	return proto.Unmarshal(b, p)
}
