// Package memory serves the scorer types that rate endpoints by what they hold in GPU
// memory: kv-cache-scorer by the room in the KV-cache, lora-affinity-scorer by the
// adapters that are loaded.
//
// KV-cache usage is what is to be expected, not what was last read: the scraped share,
// plus the blocks that the uncached prompt tokens of the picks since then will take.
// Those are the picks of all routers (the roster's credit) and the asking router's
// newest, which have not arrived here yet (the request's pending picks). They can be
// counted only where the endpoint told the size and the number of its blocks.
//
// The adapter of a request is InferenceRequest.adapter or, since engines name adapters
// as models, InferenceRequest.model. So a request for the base model is rated as one
// for an adapter that runs nowhere, as the Inference Gateway's endpoint picker does.
//
// An endpoint whose figure was never read, is missing or is older than the roster's
// staleness limit is abstained on.
package memory
