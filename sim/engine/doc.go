// Package engine is a model of a vLLM-like inference engine as a discrete-event simulation.
//
// It models what a router can notice of an engine: continuous batching (a running batch, a waiting queue served first
// come, first served, a token budget per step, chunked prefill), the time that prefill and decode steps take, a paged KV
// cache whose full blocks are kept as a prefix cache (chained hashes, reference counts, least recently used first out),
// preemption when decoding runs out of blocks, prompts that another engine has computed and keeps until they are fetched
// (disaggregated prefill), and a bounded number of LoRA adapters per batch. The rules are those of
// vLLM's V1 scheduler.
//
// An [Engine] is pure: it has no goroutines, no clock, no input or output and no randomness. Time is a duration since
// the engine's birth, and is told to it. The same calls give the same events. One engine simulates a second of a busy
// server in well under a millisecond; package fleet drives many in virtual time, package modelserver drives one in real
// time behind HTTP.
//
// It does not model: pipeline stages, speculative decoding, swapping of KV blocks to the host, priorities, and the
// effect of the context length on the time of a prefill.
package engine
