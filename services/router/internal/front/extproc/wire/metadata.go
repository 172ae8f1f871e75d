package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// Metadata returns the value of a key in a namespace of the proxy's dynamic metadata,
// nil if it is not there.
func (r *Request) Metadata(namespace, key string) *structpb.Value {
	if !r.hasMeta {
		return nil
	}
	var found []byte
	for num, v := range fields(r.metadata) {
		if num == 1 { // filter_metadata; of equal keys the last counts
			if k, s := mapEntry(v); string(k) == namespace {
				found = s
			}
		}
	}
	return value(found, key)
}

// Attribute returns the value of an attribute, nil if it is not there.
func (r *Request) Attribute(name string) *structpb.Value {
	for _, entry := range r.attributes {
		_, s := mapEntry(entry)
		if v := value(s, name); v != nil {
			return v
		}
	}
	return nil
}

// value finds a key in an encoded Struct.
func value(s []byte, key string) *structpb.Value {
	var found []byte
	for num, entry := range fields(s) {
		if num == 1 {
			if k, v := mapEntry(entry); string(k) == key {
				found = v
				if found == nil {
					found = []byte{}
				}
			}
		}
	}
	if found == nil {
		return nil
	}
	v := new(structpb.Value)
	if proto.Unmarshal(found, v) != nil {
		return nil
	}
	return v
}

// mapEntry reads key and value of a map's entry.
func mapEntry(entry []byte) (key, value []byte) {
	for num, v := range fields(entry) {
		switch num {
		case 1:
			key = v
		case 2:
			value = v
		}
	}
	return key, value
}

// fields goes through the fields of bytes of a message, up to where it is malformed.
func fields(b []byte) func(yield func(protowire.Number, []byte) bool) {
	return func(yield func(protowire.Number, []byte) bool) {
		for len(b) > 0 {
			num, typ, n := protowire.ConsumeTag(b)
			if n < 0 {
				return
			}
			b = b[n:]
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return
			}
			if typ == protowire.BytesType {
				v, _ := protowire.ConsumeBytes(b)
				if !yield(num, v) {
					return
				}
			}
			b = b[n:]
		}
	}
}
