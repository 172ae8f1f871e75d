// Package engine knows what model servers write on their metrics pages, and reads
// the figures that routing needs from them: vLLM, SGLang, TensorRT-LLM's own server
// and Triton with TensorRT-LLM.
//
// Rules, for every engine:
//
//   - Unknown is not zero. A figure is unknown if its family is missing, or if any
//     of its lines cannot be read or is NaN, infinite or (counts) negative. The other
//     figures of the page still count. A usage outside of 0..1 is clamped.
//   - Several spellings of one family are ranked; the first one with a readable value
//     counts, and it alone.
//   - Several engines on one page (data-parallel ranks, models) are one endpoint:
//     counts and blocks are summed, usage is averaged. Tensor, pipeline and expert
//     ranks repeat what their engine says, so of these the highest value counts.
//   - One series twice: the newest timestamp counts, the first on ties.
//   - Of the adapter series of one engine, which stay on the page for ever, only the
//     one with the newest value counts (the value is the time it was written); the
//     first on ties. Names are trimmed, and empty lists mean that no adapter is in use.
//   - A family is its exact name: vllm:num_requests_waiting_by_reason is not
//     vllm:num_requests_waiting and is never added to it.
//
// Which engine it is, is told by the caller or seen on the page: the engine with the
// most known figures, the first in the order of [Names] on ties.
//
// Names and labels are from the engines' own pages and from the model server
// protocol of the Inference Gateway.
package engine
