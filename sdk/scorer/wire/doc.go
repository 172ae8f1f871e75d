// Package wire is a gRPC codec for the messages of pointsman.scorer.v1: the same bytes
// as gRPC's own "proto" codec, made and read by generated code instead of reflection,
// in buffers that are used again.
//
// It promises that whoever speaks protobuf understands it, that messages without
// generated code go the usual way, and that a message which is received into is emptied
// first and keeps the room it has, so that a stream can receive into one message again
// and again.
//
// It does not check that strings are valid UTF-8, in either direction: whoever shows
// what a peer sent must.
package wire
