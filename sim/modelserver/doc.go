// Package modelserver is a simulated vLLM server: package engine driven in real time behind the OpenAI API.
//
// It answers /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models, /tokenize, /health, /version and
// /metrics as vLLM does, as far as a router, a client library or a dashboard can tell: streamed and whole answers, usage
// with cached tokens, LoRA adapters, errors in OpenAI's shape. What takes time in a real server takes the time that the
// engine's model says, divided by Config.TimeScale. The same prompt gets the same answer from every server.
//
// Faults can be switched on and off while it runs, from Go (SetFaults) and over HTTP (/sim/faults): failing, hanging and
// dropping requests, slow or failing scrapes, refused connections, a slow or frozen engine.
//
// A [Server] has one goroutine besides those of net/http, which sleeps until the engine has something to do; dozens run
// in one process. It does not authenticate anybody, and its answers make no sense.
package modelserver
