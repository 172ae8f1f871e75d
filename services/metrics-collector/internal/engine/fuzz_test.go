package engine

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// FuzzRead compares with the Prometheus libraries wherever they accept the page, and
// otherwise asks for figures in their ranges.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 40\nvllm:num_requests_running{model_name=\"m\",engine=\"1\"} 2 1739557565123",
		"vllm:kv_cache_usage_perc NaN\nvllm:gpu_cache_usage_perc 1.7\nvllm:num_requests_waiting +Inf\n",
		"  vllm:num_requests_waiting  { a = \"x\\\"\\\\\\n,}\" , } 3.5e1 \nvllm:num_requests_waiting_by_reason{reason=\"capacity\"} 6",
		"vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"b, a\",waiting_lora_adapters=\"c\"} 1.7e9\nvllm:num_requests_running 1\n",
		"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1 # {trace_id=\"ab\"} 0.05\n# EOF",
		"{\"vllm:num_requests_running\",model_name=\"m\"} 3\n{\"vllm:num_requests_waiting\"} 1\n",
		"vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1\r\nvllm:num_requests_running 1\r\n",
	} {
		f.Add([]byte(seed))
	}
	catalog := NewCatalog()
	f.Fuzz(func(t *testing.T, page []byte) {
		r := catalog.Reader(VLLM)
		got := r.Read(page)
		check(t, got)
		check(t, catalog.Reader("").Read(page))
		if d := cmp.Diff(got, r.Read(page)); d != "" {
			t.Errorf("the same page a second time: %s", d)
		}
		// The libraries take a brace anywhere in the line for the start of labels
		// that may hold the name; such lines are compared in the seeds of the page
		// package alone.
		if strings.Contains(string(page), "{\"") || strings.Contains(string(page), ",\"") {
			return
		}
		if want, ok := reference(page); ok {
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("differs from the Prometheus libraries (-they +we):\n%s", d)
			}
		}
	})
}

func check(t *testing.T, f Figures) {
	t.Helper()
	if f.Waiting < Unknown || f.Running < Unknown {
		t.Errorf("counts %d, %d are below unknown", f.Waiting, f.Running)
	}
	if u := float64(f.KVCacheUsage); math.IsNaN(u) || u != Unknown && (u < 0 || u > 1) {
		t.Errorf("usage %v is out of range", u)
	}
	if (f.Engine == "") == f.Known() {
		t.Errorf("engine %q although known is %v", f.Engine, f.Known())
	}
}

// TestReadAsTheLibrariesDo builds valid pages that engines might write.
func TestReadAsTheLibrariesDo(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		page := drawPage(t)
		want, ok := reference([]byte(page))
		if !ok {
			t.Fatalf("the libraries refuse the page that was built:\n%s", page)
		}
		compared++
		if d := cmp.Diff(want, NewCatalog().Reader(VLLM).Read([]byte(page))); d != "" {
			t.Fatalf("differs (-libraries +ours):\n%s\npage:\n%s", d, page)
		}
	})
	if compared == 0 {
		t.Error("nothing was compared")
	}
}

func drawPage(t *rapid.T) string {
	blank := rapid.SampledFrom([]string{"", "", " ", "\t", "  "})
	value := rapid.SampledFrom([]string{"0", "1", "40", "0.5", "7.0", "1e3", "0.123456789012345678", "NaN", "+Inf", "-Inf", "-1", "1.7", "2.5E-1", "12345678901234567890"})
	text := rapid.SampledFrom([]string{"m", "", "meta-llama/Llama-3", `a\"b`, `c\\`, `two\nlines`, "ünï", "a, b", "b,c,", " x ", "}", "{", "#", "="})
	numeral := rapid.SampledFrom([]string{"16", "64", "None", "", "1000000", "16.5", "4294967295999"})
	family := rapid.SampledFrom([]string{
		"vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
		"vllm:lora_requests_info", "vllm:cache_config_info", "vllm:num_requests_waiting_by_reason", "vllm:num_requests", "vllm:prompt_tokens_total", "sglang:num_queue_reqs",
	})
	names := []string{"engine", "model_name", "tp_rank", "max_lora", "running_lora_adapters", "waiting_lora_adapters", "block_size", "num_gpu_blocks", "le"}
	var page strings.Builder
	for range rapid.IntRange(0, 12).Draw(t, "lines") {
		if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
			page.WriteString(rapid.SampledFrom([]string{"\n", "# a comment\n", "   \n", "#\n", "# vllm:num_requests_waiting 7\n"}).Draw(t, "filler"))
			continue
		}
		page.WriteString(blank.Draw(t, "indent") + family.Draw(t, "family") + blank.Draw(t, "before labels"))
		labels := rapid.Permutation(names).Draw(t, "labels")[:rapid.IntRange(0, 4).Draw(t, "count")]
		if len(labels) > 0 || rapid.Bool().Draw(t, "empty braces") {
			var parts []string
			for _, l := range labels {
				v := text.Draw(t, "text")
				switch l {
				case "engine", "tp_rank":
					v = rapid.SampledFrom([]string{"0", "1"}).Draw(t, "rank")
				case "max_lora", "block_size", "num_gpu_blocks":
					v = numeral.Draw(t, "numeral")
				}
				parts = append(parts, fmt.Sprintf("%s%s%s=%s\"%s\"%s", blank.Draw(t, "b"), l, blank.Draw(t, "b"), blank.Draw(t, "b"), v, blank.Draw(t, "b")))
			}
			end := ""
			if len(parts) > 0 {
				end = rapid.SampledFrom([]string{"", ","}).Draw(t, "last comma")
			}
			page.WriteString("{" + strings.Join(parts, ",") + end + "}")
		}
		page.WriteString(" " + value.Draw(t, "value"))
		if rapid.Bool().Draw(t, "has timestamp") {
			page.WriteString(rapid.SampledFrom([]string{" ", "\t "}).Draw(t, "b") + rapid.SampledFrom([]string{"0", "1000", "1739557565123", "-5"}).Draw(t, "timestamp"))
		}
		page.WriteString("\n")
	}
	return page.String()
}
