package load

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec sends frames as they are and decodes answers as usual.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(frame)
	if !ok {
		return nil, fmt.Errorf("a %T is sent where a frame is wanted", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(f)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("a %T is received where a message is wanted", v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	return proto.Unmarshal(b.ReadOnlyData(), m)
}
