package page

import (
	"strconv"

	"github.com/pointsman/pointsman/sim/engine"
)

// vllm adds vLLM's families.
func (b *builder) vllm(o Options) {
	b.created = o.Large
	labels := []string{"model_name", o.Model}
	if o.Large {
		labels = []string{"engine", "0", "model_name", o.Model}
	}
	b.vllmState(o, labels)
	b.vllmCounters(o, labels)
	b.vllmHistograms(labels)
	if o.Transfers {
		b.vllmTransfers(labels)
	}
	if o.Large {
		b.vllmLarge(labels)
		b.http()
	}
}

func (b *builder) vllmState(o Options, labels []string) {
	if o.Style == VLLM {
		b.gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig.",
			[]string{"block_size", strconv.Itoa(o.BlockSize), "num_gpu_blocks", strconv.Itoa(o.NumBlocks)},
			func(*Figures) float64 { return 1 })
	}
	usage, help := "vllm:kv_cache_usage_perc", "Prometheus metric for the fraction of KV-cache blocks currently in use (from 0 to 1)."
	if o.Style == VLLM09 {
		usage, help = "vllm:gpu_cache_usage_perc", "GPU KV-cache usage. 1 means 100 percent usage."
	}
	b.gauge(usage, help, labels, func(f *Figures) float64 { return f.Stats.KVUsage() })
	b.gauge("vllm:num_requests_running", "Number of requests currently running on GPU.", labels,
		func(f *Figures) float64 { return float64(f.Stats.Running) })
	b.gauge("vllm:num_requests_waiting", "Prometheus metric for the number of queued requests.", labels,
		func(f *Figures) float64 { return float64(f.Stats.Waiting) })
	if o.MaxAdapters > 0 {
		b.add("vllm:lora_requests_info", "gauge", "Running stats on lora requests.", appendAdapters(o.MaxAdapters))
	}
}

// appendAdapters writes the adapter family. Its labels are no constants.
func appendAdapters(most int) func([]byte, *Figures) []byte {
	limit := strconv.Itoa(most)
	return func(dst []byte, f *Figures) []byte {
		if f.Adapters == nil {
			return dst
		}
		for _, s := range f.Adapters.seen {
			begin := series("vllm:lora_requests_info", "max_lora", limit, "running_lora_adapters", s.running, "waiting_lora_adapters", s.waiting)
			dst = appendValue(dst, begin, s.unix)
		}
		return dst
	}
}

func (b *builder) vllmCounters(o Options, labels []string) {
	b.counter("vllm:generation_tokens_total", "Total number of generated tokens.", labels,
		func(f *Figures) uint64 { return f.Stats.GenerationTokens })
	b.counter("vllm:prompt_tokens_total", "Total number of prompt tokens processed.", labels,
		func(f *Figures) uint64 { return f.Stats.PromptTokens })
	b.counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", labels,
		func(f *Figures) uint64 { return f.Stats.PrefixHits })
	b.counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", labels,
		func(f *Figures) uint64 { return f.Stats.PrefixQueries })
	label := "finish_reason"
	if o.Large {
		label = "finished_reason"
	}
	reasons := []engine.Reason{engine.Aborted, engine.Length, engine.Stop}
	if o.Transfers {
		reasons = append(reasons, engine.CacheThreshold, engine.Failed)
	}
	begins := make([]string, len(reasons))
	for i, r := range reasons {
		begins[i] = series("vllm:request_success_total", append([]string{label, r.String()}, labels...)...)
	}
	b.add("vllm:request_success_total", "counter", "Count of successfully processed requests.", func(dst []byte, f *Figures) []byte {
		for i, r := range reasons {
			dst = appendCount(dst, begins[i], f.Stats.Ended[r])
		}
		return dst
	})
}

// vllmTransfers adds what vLLM shows of a KV connector, which here is always NIXL's.
func (b *builder) vllmTransfers(labels []string) {
	b.counter("vllm:external_prefix_cache_queries_total", "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of queried tokens.",
		labels, func(f *Figures) uint64 { return f.Stats.RemoteQueries })
	b.counter("vllm:external_prefix_cache_hits_total", "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of cached tokens.",
		labels, func(f *Figures) uint64 { return f.Stats.RemoteHits })
	b.histogram("vllm:nixl_xfer_time_seconds", "Histogram of transfer duration for NIXL KV Cache transfers.", labels, func(d *Distributions) *Histogram { return d.Transfer })
	b.histogram("vllm:nixl_bytes_transferred", "Histogram of bytes transferred per NIXL KV Cache transfers.", labels, func(d *Distributions) *Histogram { return d.TransferBytes })
	b.histogram("vllm:nixl_num_descriptors", "Histogram of number of descriptors per NIXL KV Cache transfers.", labels, func(d *Distributions) *Histogram { return d.TransferBlocks })
	b.counter("vllm:nixl_num_failed_transfers_total", "Number of failed NIXL KV Cache transfers.", labels, func(f *Figures) uint64 { return f.Distributions.TransferFailed })
	b.counter("vllm:nixl_num_kv_expired_reqs_total", "Number of requests that had their KV expire.", labels, func(f *Figures) uint64 { return f.Distributions.TransferExpired })
}

func (b *builder) vllmHistograms(labels []string) {
	add := func(name, help string, value func(*Distributions) *Histogram) {
		b.histogram("vllm:"+name, help, labels, value)
	}
	add("e2e_request_latency_seconds", "Histogram of end to end request latency in seconds.", func(d *Distributions) *Histogram { return d.E2E })
	add("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", func(d *Distributions) *Histogram { return d.InterToken })
	add("max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.", func(d *Distributions) *Histogram { return d.Generation })
	add("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", func(d *Distributions) *Histogram { return d.Decode })
	add("request_generation_tokens", "Number of generation tokens processed.", func(d *Distributions) *Histogram { return d.Generation })
	add("request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", func(d *Distributions) *Histogram { return d.Inference })
	add("request_params_max_tokens", "Histogram of the max_tokens request parameter.", func(d *Distributions) *Histogram { return d.MaxTokens })
	add("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", func(d *Distributions) *Histogram { return d.Prefill })
	add("request_prompt_tokens", "Number of prefill tokens processed.", func(d *Distributions) *Histogram { return d.Prompt })
	add("request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", func(d *Distributions) *Histogram { return d.PerOutputToken })
	add("time_per_output_token_seconds", "Histogram of time per output token in seconds.", func(d *Distributions) *Histogram { return d.InterToken })
	add("time_to_first_token_seconds", "Histogram of time to first token in seconds.", func(d *Distributions) *Histogram { return d.TTFT })
}
