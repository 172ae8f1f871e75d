package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The reference's own facts, where the design does not decide otherwise.
func TestReferenceCases(t *testing.T) {
	triton := func(lines ...string) string {
		return "nv_trt_llm_request_metrics" + strings.Join(lines, "\nnv_trt_llm_request_metrics")
	}
	const lora = "vllm:lora_requests_info"
	for name, c := range map[string]struct {
		page string
		want Figures
	}{
		"J1 series chosen by label": {
			triton(`{request_type="waiting"} 1 1000`, `{request_type="active"} 2 2000`),
			Figures{Engine: TritonTRTLLM, Waiting: 1, Running: Unknown, KVCacheUsage: Unknown},
		},
		"J2 no series with the label": {triton(`{request_type="other"} 1`, `{kind="waiting"} 2`), unknown()},
		"J4 newest timestamp, not biggest": {
			"vllm:num_requests_waiting 5 3000\nvllm:num_requests_waiting 6 1000\n",
			Figures{Engine: VLLM, Waiting: 5, Running: Unknown, KVCacheUsage: Unknown},
		},
		"first on equal timestamps": {
			"vllm:num_requests_waiting 5\nvllm:num_requests_waiting 6\n",
			Figures{Engine: VLLM, Waiting: 5, Running: Unknown, KVCacheUsage: Unknown},
		},
		"J5 missing family": {"vllm:num_requests_swapped 1\n", unknown()},
		"J7 newest by value": {
			lora + `{running_lora_adapters="lora1",max_lora="2"} 3000` + "\n" + lora + `{running_lora_adapters="lora2,lora3",max_lora="4"} 1000` + "\nvllm:num_requests_running 1",
			Figures{Engine: VLLM, Waiting: Unknown, Running: 1, KVCacheUsage: Unknown, Adapters: &Adapters{Running: []string{"lora1"}, Max: 2}},
		},
		"J8 no lora family": {"vllm:num_requests_running 1", Figures{Engine: VLLM, Waiting: Unknown, Running: 1, KVCacheUsage: Unknown}},
		"J10 no lora in this engine": {
			"trtllm_num_requests_running 1\n" + lora + `{running_lora_adapters="a"} 1`,
			Figures{Engine: TRTLLMServe, Waiting: Unknown, Running: 1, KVCacheUsage: Unknown},
		},
		"J11 all figures": {
			"vllm:num_requests_waiting 5 1000\nvllm:num_requests_waiting 7 2000\nvllm:kv_cache_usage_perc .8 2000\nvllm:kv_cache_usage_perc .7 500\n" +
				lora + `{running_lora_adapters="lora1,lora2",waiting_lora_adapters="lora3",max_lora="3"} 1` + "\n",
			Figures{
				Engine: VLLM, Waiting: 7, Running: Unknown, KVCacheUsage: 0.8,
				Adapters: &Adapters{Running: []string{"lora1", "lora2"}, Waiting: []string{"lora3"}, Max: 3},
			},
		},
		"J13 waiting missing": {
			"vllm:num_requests_running 2\nvllm:kv_cache_usage_perc 0.5\n",
			Figures{Engine: VLLM, Waiting: Unknown, Running: 2, KVCacheUsage: 0.5},
		},
		"J14 max_lora invalid": {
			"vllm:num_requests_running 2\n" + lora + `{running_lora_adapters="lora1",max_lora="invalid"} 1`,
			Figures{Engine: VLLM, Waiting: Unknown, Running: 2, KVCacheUsage: Unknown, Adapters: &Adapters{Running: []string{"lora1"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, read(t, "", c.page)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		labels      string
		size, count uint32
	}{
		"both":                    {`block_size="16",num_gpu_blocks="640"`, 16, 640},
		"among many, other order": {`cache_dtype="auto",num_gpu_blocks="640",is_attention_free="False",block_size="32"`, 32, 640},
		"count not decided":       {`block_size="16",num_gpu_blocks="None"`, 16, 0},
		"neither":                 {`cache_dtype="auto"`, 0, 0},
		"not whole":               {`block_size="16.5",num_gpu_blocks="-1"`, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := read(t, "", "vllm:num_requests_running 1\nvllm:cache_config_info{"+c.labels+"} 1\n")
			if f.BlockSize != c.size || f.BlockCount != c.count {
				t.Errorf("got %d tokens, %d blocks; want %d, %d", f.BlockSize, f.BlockCount, c.size, c.count)
			}
		})
	}
}

func TestModelsAreSharedWhileTheSame(t *testing.T) {
	r := NewCatalog().Reader("")
	page := []byte("vllm:num_requests_running{model_name=\"b\"} 1\nvllm:num_requests_waiting{model_name=\"a\"} 1\nvllm:num_requests_waiting{model_name=\"b\"} 1\n")
	first, second := r.Read(page).Models, r.Read(page).Models
	if d := cmp.Diff([]string{"a", "b"}, first); d != "" {
		t.Fatal(d)
	}
	if &first[0] != &second[0] {
		t.Error("the same models made a new list")
	}
	third := r.Read([]byte("vllm:num_requests_running{model_name=\"c\"} 1\n")).Models
	if d := cmp.Diff([]string{"c"}, third); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"a", "b"}, first); d != "" {
		t.Errorf("a list handed out changed: %s", d)
	}
}

func TestTooManySeriesAreUnknown(t *testing.T) {
	var page strings.Builder
	for i := range maxSeries + 1 {
		fmt.Fprintf(&page, "vllm:num_requests_running{engine=\"%d\"} 1\n", i)
	}
	page.WriteString("vllm:num_requests_waiting 1\n")
	if f := read(t, "", page.String()); f.Running != Unknown || f.Waiting != 1 {
		t.Errorf("got %+v, want running unknown", f)
	}
}

func TestReadAllocates(t *testing.T) {
	text := largePage(t)
	if lines := strings.Count(string(text), "\n"); lines < 500 || len(text) < 58_000 {
		t.Fatalf("the page has %d lines and %d bytes, which is no real page", lines, len(text))
	}
	for _, engine := range []Name{"", VLLM} {
		r := NewCatalog().Reader(engine)
		r.Read(text)
		if n := testing.AllocsPerRun(100, func() { r.Read(text) }); n > 1 {
			t.Errorf("engine %q: %v allocations a page, at most 1 is wanted", engine, n)
		}
	}
}
