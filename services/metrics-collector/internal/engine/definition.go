package engine

// quantity is something that is read from a page.
type quantity uint8

const (
	waiting quantity = iota
	running
	usage
	adapters
	blockSize
	blockCount
	quantities
)

// rule says that a family tells a quantity.
type rule struct {
	quantity quantity
	family   string
	// rank of the spelling: 0 counts before 1.
	rank int
	// whereLabel and whereValue select the series. Empty: all.
	whereLabel, whereValue string
	// valueLabel names the label that holds the number, in families whose value
	// means nothing. Empty: the value itself.
	valueLabel string
}

// definition is what one engine writes.
type definition struct {
	engine Name
	rules  []rule
}

// definitions returns what is known of the engines, in the order of [Names].
func definitions() []definition {
	return []definition{
		{VLLM, []rule{
			{quantity: waiting, family: "vllm:num_requests_waiting"},
			{quantity: running, family: "vllm:num_requests_running"},
			{quantity: usage, family: "vllm:kv_cache_usage_perc"},
			{quantity: usage, family: "vllm:gpu_cache_usage_perc", rank: 1}, // before vLLM 0.10
			{quantity: adapters, family: "vllm:lora_requests_info"},
			{quantity: blockSize, family: "vllm:cache_config_info", valueLabel: "block_size"},
			{quantity: blockCount, family: "vllm:cache_config_info", valueLabel: "num_gpu_blocks"},
		}},
		{SGLang, append(sglang("sglang:", 0), sglang("sglang_", 1)...)},
		{TRTLLMServe, []rule{
			{quantity: waiting, family: "trtllm_num_requests_waiting"},
			{quantity: running, family: "trtllm_num_requests_running"},
			{quantity: usage, family: "trtllm_kv_cache_utilization"},
			{quantity: blockSize, family: "trtllm_kv_cache_tokens_per_block"},
			{quantity: blockCount, family: "trtllm_kv_cache_max_blocks"},
		}},
		{TritonTRTLLM, []rule{
			{quantity: waiting, family: "nv_trt_llm_request_metrics", whereLabel: "request_type", whereValue: "waiting"},
			{quantity: running, family: "nv_trt_llm_request_metrics", whereLabel: "request_type", whereValue: "scheduled"},
			{quantity: usage, family: "nv_trt_llm_kv_cache_block_metrics", whereLabel: "kv_cache_block_type", whereValue: "fraction"},
			{quantity: blockSize, family: "nv_trt_llm_kv_cache_block_metrics", whereLabel: "kv_cache_block_type", whereValue: "tokens_per"},
			{quantity: blockCount, family: "nv_trt_llm_kv_cache_block_metrics", whereLabel: "kv_cache_block_type", whereValue: "max"},
		}},
	}
}

// sglang returns SGLang's rules. Its names have a colon; exporters that may not
// write one use an underscore. The cache's size was in labels of an info family
// before 0.5.11 and is in two gauges since.
func sglang(prefix string, rank int) []rule {
	return []rule{
		{quantity: waiting, family: prefix + "num_queue_reqs", rank: rank},
		{quantity: running, family: prefix + "num_running_reqs", rank: rank},
		{quantity: usage, family: prefix + "token_usage", rank: rank},
		{quantity: blockSize, family: prefix + "page_size", rank: 2 * rank},
		{quantity: blockCount, family: prefix + "num_pages", rank: 2 * rank},
		{quantity: blockSize, family: prefix + "cache_config_info", rank: 2*rank + 1, valueLabel: "page_size"},
		{quantity: blockCount, family: prefix + "cache_config_info", rank: 2*rank + 1, valueLabel: "num_pages"},
	}
}
