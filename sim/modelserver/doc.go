// Package modelserver is a simulated vLLM server: package engine driven in real time behind the OpenAI API.
//
// It answers /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models, /tokenize, /health, /version and
// /metrics as vLLM does, as far as a router, a client library or a dashboard can tell: streamed and whole answers, usage
// with cached tokens, LoRA adapters, errors in OpenAI's shape. What takes time in a real server takes the time that the
// engine's model says, divided by Config.TimeScale. The same prompt gets the same answer from every server.
//
// With a connector (Config.Transfer) it takes part in disaggregated prefill: in vLLM's way (kv_transfer_params, the decode
// server fetches what the prefill server keeps), SGLang's (two legs that meet in a bootstrap room) or over a shared
// storage (cache_hit_threshold). So it does in three more ways of vLLM's, in which an id links the legs: Mooncake's,
// the OffloadingConnector's and MoRI-IO's. Blocks go nowhere: the servers check that the legs name the same live prompt, and take the
// time that a transfer would. What vLLM does over its side channel, simulated servers do over HTTP, at their own address.
//
// What is encoded of images, audio and video can be handed over too (Config.MediaRole). Where llm-d's simulator answers
// otherwise than the engine, Config.Dialect says whose answers are given.
//
// Faults can be switched on and off while it runs, from Go (SetFaults) and over HTTP (/sim/faults): failing, hanging and
// dropping requests and transfers, slow or failing scrapes, refused connections, a slow or frozen engine.
//
// A [Server] has one goroutine besides those of net/http, which sleeps until the engine has something to do; dozens run
// in one process. It does not authenticate anybody, and its answers make no sense.
package modelserver
