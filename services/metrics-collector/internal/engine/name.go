package engine

// Name is a kind of model server software, as it stands in endpoint tables.
type Name string

// The engines that are known.
const (
	VLLM         Name = "vllm"
	SGLang       Name = "sglang"
	TRTLLMServe  Name = "trtllm-serve"
	TritonTRTLLM Name = "triton-tensorrt-llm"
)

// Labels of an endpoint that may name its engine, the first that is there counts.
const (
	TypeLabel       = "llm-d.ai/engine-type"
	LegacyTypeLabel = "inference.networking.k8s.io/engine-type"
)

// Names returns the known engines, in the order of detection.
func Names() []Name { return []Name{VLLM, SGLang, TRTLLMServe, TritonTRTLLM} }

// Parse returns the engine of that name, and false if it is not known.
func Parse(s string) (Name, bool) {
	for _, n := range Names() {
		if string(n) == s {
			return n, true
		}
	}
	return "", false
}
