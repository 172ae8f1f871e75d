package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What Higress's plug-ins read of pages (their rows on vLLM and SGLang, and H14). Where the
// reference gives up on an endpoint because of one family, here that family is not known.
func TestHigressPages(t *testing.T) {
	const (
		load = "vllm:num_requests_running 3\nvllm:num_requests_waiting 5\n"
		lora = "vllm:lora_requests_info"
	)
	for name, c := range map[string]struct {
		page string
		want Figures
	}{
		"vLLM": {
			load + "vllm:gpu_cache_usage_perc .75\n" + lora + `{running_lora_adapters="old",max_lora="1"} 1` + "\n" + lora + `{running_lora_adapters="adapter-a,adapter-b",max_lora="4"} 2` + "\n",
			Figures{Engine: VLLM, Running: 3, Waiting: 5, KVCacheUsage: .75, Adapters: &Adapters{Running: []string{"adapter-a", "adapter-b"}, Max: 4}},
		},
		"vLLM, a missing family": {load, Figures{Engine: VLLM, Running: 3, Waiting: 5, KVCacheUsage: Unknown}},
		"vLLM, an empty family":  {load + "# TYPE vllm:gpu_cache_usage_perc gauge\n", Figures{Engine: VLLM, Running: 3, Waiting: 5, KVCacheUsage: Unknown}},
		"SGLang": {
			"sglang:num_running_reqs 162\nsglang:num_queue_reqs 2826\nsglang:token_usage .28\n",
			Figures{Engine: SGLang, Running: 162, Waiting: 2826, KVCacheUsage: .28},
		},
		"SGLang, only running": {"sglang:num_running_reqs 7\n", Figures{Engine: SGLang, Running: 7, Waiting: Unknown, KVCacheUsage: Unknown}},
		"H14 both names of the usage": {
			"vllm:num_requests_waiting 7\nvllm:kv_cache_usage_perc .25\nvllm:gpu_cache_usage_perc .9\n",
			Figures{Engine: VLLM, Running: Unknown, Waiting: 7, KVCacheUsage: .25},
		},
		"H14 only the old name": {
			"vllm:num_requests_waiting 7\nvllm:gpu_cache_usage_perc .4\n",
			Figures{Engine: VLLM, Running: Unknown, Waiting: 7, KVCacheUsage: .4},
		},
		"H14 adapters are trimmed": {
			load + lora + `{running_lora_adapters="base, adapter-a",max_lora="2"} 1` + "\n",
			Figures{Engine: VLLM, Running: 3, Waiting: 5, KVCacheUsage: Unknown, Adapters: &Adapters{Running: []string{"adapter-a", "base"}, Max: 2}},
		},
		"H14 the queue is NaN": {
			"vllm:num_requests_waiting NaN\nvllm:num_requests_running 3\nvllm:kv_cache_usage_perc .25\n",
			Figures{Engine: VLLM, Running: 3, Waiting: Unknown, KVCacheUsage: .25},
		},
		"H14 malformed text": {"<html>{", unknown()},
		"H14 a malformed line among others": {
			load + "vllm:kv_cache_usage_perc{ .25\n",
			Figures{Engine: VLLM, Running: 3, Waiting: 5, KVCacheUsage: Unknown},
		},
		"H14 blocks": {
			load + `vllm:cache_config_info{block_size="128",num_gpu_blocks="4096"} 1` + "\n",
			Figures{Engine: VLLM, Running: 3, Waiting: 5, KVCacheUsage: Unknown, BlockSize: 128, BlockCount: 4096},
		},
		"H14 blocks that are none": {
			load + `vllm:cache_config_info{block_size="-1",num_gpu_blocks="many"} 1` + "\n",
			Figures{Engine: VLLM, Running: 3, Waiting: 5, KVCacheUsage: Unknown},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, read(t, "", c.page)); d != "" {
				t.Error(d)
			}
		})
	}
}
