package page

import (
	"strconv"

	"github.com/pointsman/pointsman/sim/engine"
)

// sglang adds SGLang's families, which begin with prefix.
func (b *builder) sglang(o Options, prefix string) {
	kind := o.Mode
	if kind == "" {
		kind = "unified"
	}
	labels := []string{"engine_type", kind, "model_name", o.Model, "pp_rank", "0", "tp_rank", "0"}
	gauge := func(name, help string, value func(*Figures) float64) { b.gauge(prefix+name, help, labels, value) }
	counter := func(name, help string, value func(*Figures) uint64) { b.counter(prefix+name, help, labels, value) }
	histogram := func(name, help string, value func(*Distributions) *Histogram) {
		b.histogram(prefix+name, help, labels, value)
	}
	gauge("num_running_reqs", "The number of running requests.", func(f *Figures) float64 { return float64(f.Stats.Running) })
	gauge("num_queue_reqs", "The number of requests in the waiting queue.", func(f *Figures) float64 { return float64(f.Stats.Waiting) })
	gauge("token_usage", "The token usage.", func(f *Figures) float64 { return f.Stats.KVUsage() })
	gauge("num_used_tokens", "The number of used tokens.", func(f *Figures) float64 { return float64(f.Stats.BlocksUsed * o.BlockSize) })
	gauge("cache_hit_rate", "The prefix cache hit rate.", func(f *Figures) float64 { return f.Stats.HitRate() })
	b.gauge(prefix+"cache_config_info", "Information of the cache configuration.",
		[]string{"num_pages", strconv.Itoa(o.NumBlocks), "page_size", strconv.Itoa(o.BlockSize)}, func(*Figures) float64 { return 1 })
	counter("prompt_tokens_total", "Number of prefill tokens processed.", func(f *Figures) uint64 { return f.Stats.PromptTokens })
	counter("generation_tokens_total", "Number of generation tokens processed.", func(f *Figures) uint64 { return f.Stats.GenerationTokens })
	counter("cached_tokens_total", "Number of cached prompt tokens.", func(f *Figures) uint64 { return f.Stats.PrefixHits })
	counter("num_requests_total", "Number of requests processed.", func(f *Figures) uint64 { return f.Stats.Submitted })
	counter("num_aborted_requests_total", "Number of requests aborted.", func(f *Figures) uint64 { return f.Stats.Ended[engine.Aborted] })
	switch {
	case !o.Transfers:
	case o.Mode == "decode":
		gauge("num_decode_transfer_queue_reqs", "The number of requests in the decode transfer queue.", func(f *Figures) float64 { return float64(f.Stats.Fetching) })
	case o.Mode == "prefill":
		gauge("num_prefill_inflight_queue_reqs", "The number of requests in the prefill inflight queue.", func(f *Figures) float64 { return float64(f.Stats.Held) })
	}
	histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.", func(d *Distributions) *Histogram { return d.TTFT })
	histogram("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", func(d *Distributions) *Histogram { return d.InterToken })
	histogram("e2e_request_latency_seconds", "Histogram of End-to-end request latency in seconds", func(d *Distributions) *Histogram { return d.E2E })
}
