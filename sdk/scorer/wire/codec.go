package wire

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that others go by
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// name is the content subtype: that of gRPC's own codec, since the bytes are the same.
const name = "proto"

// Codec returns the codec, for grpc.ForceServerCodecV2 and grpc.ForceCodecV2.
func Codec() encoding.CodecV2 { return codec{usual: encoding.GetCodecV2(name)} }

type codec struct{ usual encoding.CodecV2 }

// generated is what messages with generated code have.
type generated interface {
	proto.Message
	SizeVT() int
	MarshalToSizedBufferVT(b []byte) (int, error)
	UnmarshalVT(b []byte) error
}

// reusable is what messages have that keep their room.
type reusable interface{ ResetVT() }

var errShort = errors.New("a message changed while it was encoded")

// Name implements encoding.CodecV2.
func (codec) Name() string { return name }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(generated)
	if !ok {
		return c.usual.Marshal(v)
	}
	size := m.SizeVT()
	if mem.IsBelowBufferPoolingThreshold(size) {
		b := make([]byte, size)
		if err := encode(m, b); err != nil {
			return nil, err
		}
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	b := shared.Get(size)
	if err := encode(m, *b); err != nil {
		shared.Put(b)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(b, shared)}, nil
}

func encode(m generated, b []byte) error {
	n, err := m.MarshalToSizedBufferVT(b)
	switch {
	case err != nil:
		return fmt.Errorf("encode %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	case n != len(b):
		return errShort
	}
	return nil
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(generated)
	if !ok {
		return c.usual.Unmarshal(data, v)
	}
	if r, ok := v.(reusable); ok {
		r.ResetVT()
	} else {
		proto.Reset(m)
	}
	b := data.MaterializeToBuffer(shared)
	defer b.Free()
	if err := m.UnmarshalVT(b.ReadOnlyData()); err != nil {
		return fmt.Errorf("decode %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return nil
}
