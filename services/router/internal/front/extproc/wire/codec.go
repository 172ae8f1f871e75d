package wire

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto" // registers the codec that others are left to
	"google.golang.org/grpc/mem"
)

// codec sends Responses and receives Requests; other messages it leaves to gRPC's own.
type codec struct {
	others encoding.CodecV2
}

// Codec returns the codec that a gRPC server needs for Request and Response. Other
// services may be on the same server.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2(proto.Name)} }

// Name is that of the codec in whose place it stands.
func (c codec) Name() string { return proto.Name }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*Response); ok {
		return r.take(), nil
	}
	return c.others.Marshal(v)
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*Request)
	if !ok {
		return c.others.Unmarshal(data, v)
	}
	if err := r.unmarshal(data); err != nil {
		return fmt.Errorf("read a ProcessingRequest: %w", err)
	}
	return nil
}
