package page

import "github.com/pointsman/pointsman/sim/engine"

// trtllm adds the families of trtllm-serve.
func (b *builder) trtllm(o Options) {
	labels := []string{"engine_type", "unspecified", "model_name", o.Model}
	gauge := func(name, help string, value func(*Figures) float64) { b.gauge("trtllm_"+name, help, labels, value) }
	gauge("num_requests_running", "Number of active requests.", func(f *Figures) float64 { return float64(f.Stats.Running) })
	gauge("num_requests_waiting", "Number of queued requests.", func(f *Figures) float64 { return float64(f.Stats.Waiting) })
	gauge("kv_cache_utilization", "Share of the KV cache in use.", func(f *Figures) float64 { return f.Stats.KVUsage() })
	gauge("kv_cache_hit_rate", "KV cache hit rate.", func(f *Figures) float64 { return f.Stats.HitRate() })
	gauge("kv_cache_max_blocks", "Number of KV cache blocks.", func(*Figures) float64 { return float64(o.NumBlocks) })
	gauge("kv_cache_used_blocks", "Number of KV cache blocks in use.", func(f *Figures) float64 { return float64(f.Stats.BlocksUsed) })
	gauge("kv_cache_tokens_per_block", "Tokens per KV cache block.", func(*Figures) float64 { return float64(o.BlockSize) })
	b.counter("trtllm_prompt_tokens_total", "Number of prompt tokens processed.", labels, func(f *Figures) uint64 { return f.Stats.PromptTokens })
	b.counter("trtllm_generation_tokens_total", "Number of generated tokens.", labels, func(f *Figures) uint64 { return f.Stats.GenerationTokens })
	stop := series("trtllm_request_success_total", append([]string{"finished_reason", "stop"}, labels...)...)
	length := series("trtllm_request_success_total", append([]string{"finished_reason", "length"}, labels...)...)
	b.add("trtllm_request_success_total", "counter", "Count of successfully processed requests.", func(dst []byte, f *Figures) []byte {
		dst = appendCount(dst, length, f.Stats.Ended[engine.Length])
		return appendCount(dst, stop, f.Stats.Ended[engine.Stop])
	})
	histogram := func(name, help string, value func(*Distributions) *Histogram) {
		b.histogram("trtllm_"+name, help, labels, value)
	}
	histogram("e2e_request_latency_seconds", "Histogram of end to end request latency in seconds.", func(d *Distributions) *Histogram { return d.E2E })
	histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.", func(d *Distributions) *Histogram { return d.TTFT })
	histogram("time_per_output_token_seconds", "Histogram of time per output token in seconds.", func(d *Distributions) *Histogram { return d.InterToken })
	histogram("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", func(d *Distributions) *Histogram { return d.Queue })
}

// triton adds the families of Triton's TensorRT-LLM backend.
func (b *builder) triton(o Options) {
	type sample struct {
		kind  string
		value func(*Figures) float64
	}
	family := func(name, help, label string, samples ...sample) {
		begins := make([]string, len(samples))
		for i, s := range samples {
			begins[i] = series(name, "model", o.Model, label, s.kind, "version", "1")
		}
		b.add(name, "gauge", help, func(dst []byte, f *Figures) []byte {
			for i, s := range samples {
				dst = appendValue(dst, begins[i], s.value(f))
			}
			return dst
		})
	}
	family("nv_trt_llm_request_metrics", "TRT LLM request metrics", "request_type",
		sample{"waiting", func(f *Figures) float64 { return float64(f.Stats.Waiting) }},
		sample{"scheduled", func(f *Figures) float64 { return float64(f.Stats.Running) }},
		sample{"active", func(f *Figures) float64 { return float64(f.Stats.Running + f.Stats.Waiting) }},
	)
	family("nv_trt_llm_kv_cache_block_metrics", "TRT LLM KV cache block metrics", "kv_cache_block_type",
		sample{"fraction", func(f *Figures) float64 { return f.Stats.KVUsage() }},
		sample{"tokens_per", func(*Figures) float64 { return float64(o.BlockSize) }},
		sample{"used", func(f *Figures) float64 { return float64(f.Stats.BlocksUsed) }},
		sample{"free", func(f *Figures) float64 { return float64(f.Stats.BlocksTotal - f.Stats.BlocksUsed) }},
		sample{"max", func(*Figures) float64 { return float64(o.NumBlocks) }},
	)
	labels := []string{"model", o.Model, "version", "1"}
	b.counter("nv_inference_request_success", "Number of successful inference requests, all batch sizes", labels,
		func(f *Figures) uint64 { return f.Stats.Ended[engine.Stop] + f.Stats.Ended[engine.Length] })
}
