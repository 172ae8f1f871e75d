// Package disagg carries out a request by two engines over HTTP: one prefills the
// prompt, another decodes the answer.
//
// Who they are has been decided before; a [Plan] says it, and what to do when the
// prefill leg fails. A [Runner] runs the legs as the engines want it:
//
//   - NIXL: the prefill leg first, for one token; the kv_transfer_params of its answer go
//     into the decode leg word for word.
//   - SGLang: both legs at once, joined by a bootstrap host, port and room.
//   - Mooncake: both legs at once, joined by an id; which engine is to be fetched from its
//     bootstrap server tells.
//   - Offloading: the prefill leg first, which stores what it computes under an id; the
//     decode leg fetches it by that.
//   - MoRI-IO, NIXL's other direction: the prefill engine writes into the decode engine,
//     after each other, or both at once, and then the answer waits for the prefill leg.
//   - Shared storage: the prefill leg first; if the client sets cache_hit_threshold, only
//     when the decode leg says that too little is cached.
//
// It promises:
//
//   - The legs' bodies are the client's bytes but for what must differ; see package body.
//     The answer is the engine's but for the number of cached tokens; see package answer.
//   - Nothing of an answer is handed out before its first byte has come, and until then
//     the policy is followed. After it nothing is repeated.
//   - Legs belong together: when one fails, or the client leaves, the other is cancelled
//     at once, and whoever waits hears why.
//   - What was handed over is used once: a decode leg that failed after its request was
//     sent is not repeated with the same parameters.
//   - A prefill leg ends exactly once for whoever watches it, and before the answer's
//     body is closed.
//   - A request that was decoded without its prefill leg has a [Reason], a constant word.
//
// Media can be encoded by further engines before: see [Runner.Encode]. An answer can be
// decoded in rounds, each a request of its own: see [Chunks].
//
// It does not pick endpoints, retry decode legs, or keep counts: a [Watcher] does. It
// knows no service, and speaks through whatever http.RoundTripper it is given; [Steady]
// is one that survives connections which engines have closed.
package disagg
