// Package wire reads and writes the messages of Envoy's external processing protocol
// (envoy.service.ext_proc.v3) without building them.
//
// A message that is received stays in the buffers in which gRPC has it: a body is
// handed out as slices of them, which may be sent back without being copied, headers
// are read by name, and what nobody asks for is skipped. A message that is sent is
// encoded once, around the slices of its body.
//
// It promises that a message which the generated code can read is read as the
// generated code reads it: a message whose meaning depends on merging repeated fields,
// which no proxy sends, takes a detour through that code. It is lenient with what the
// generated code refuses, such as invalid UTF-8, but never panics.
//
// It knows the messages and not the order in which they may come.
package wire
