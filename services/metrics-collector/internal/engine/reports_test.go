package engine

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// unknown is what a page says that says nothing.
func unknown() Figures { return Figures{Waiting: Unknown, Running: Unknown, KVCacheUsage: Unknown} }

func read(t *testing.T, engine Name, page string) Figures {
	t.Helper()
	return NewCatalog().Reader(engine).Read([]byte(page))
}

func TestB063_usage_gauge_renamed(t *testing.T) {
	const oldName, newName = "vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.25\n", "vllm:kv_cache_usage_perc{model_name=\"m\"} 0.5\n"
	const load = "vllm:num_requests_running{model_name=\"m\"} 1\n"
	for name, c := range map[string]struct {
		page string
		want float32
	}{
		"only the old name":  {load + oldName, 0.25},
		"only the new name":  {load + newName, 0.5},
		"both, new first":    {newName + oldName + load, 0.5},
		"both, old first":    {oldName + newName + load, 0.5},
		"neither is unknown": {load, Unknown},
		"new one unreadable": {"vllm:kv_cache_usage_perc unknown\n" + oldName + load, 0.25},
	} {
		t.Run(name, func(t *testing.T) {
			if got := read(t, "", c.page).KVCacheUsage; got != c.want {
				t.Errorf("usage = %v, want %v", got, c.want)
			}
		})
	}
}

func TestB064_one_series_per_engine(t *testing.T) {
	lines := []string{
		`vllm:num_requests_running{engine="0",model_name="m"} 40`, `vllm:num_requests_running{engine="1",model_name="m"} 0`,
		`vllm:num_requests_waiting{engine="0",model_name="m"} 7`, `vllm:num_requests_waiting{engine="1",model_name="m"} 2`,
		`vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.9`, `vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.1`,
		`vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100"} 1`, `vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="100"} 1`,
	}
	want := Figures{Engine: VLLM, Waiting: 9, Running: 40, KVCacheUsage: 0.5, BlockSize: 16, BlockCount: 200, Models: []string{"m"}}
	forwards := strings.Join(lines, "\n")
	var reversed []string
	for _, l := range lines {
		reversed = append([]string{l}, reversed...)
	}
	for name, page := range map[string]string{"in order": forwards, "reversed": strings.Join(reversed, "\n")} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(want, read(t, "", page)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestB064_tensor_ranks_of_one_engine_are_not_added(t *testing.T) {
	page := `sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 5
sglang:num_running_reqs{dp_rank="0",tp_rank="1"} 5
sglang:num_running_reqs{dp_rank="1",tp_rank="2"} 3
sglang:num_running_reqs{dp_rank="1",tp_rank="3"} 3
sglang:token_usage{dp_rank="0",tp_rank="0"} 0.5
sglang:token_usage{dp_rank="0",tp_rank="1"} 0.5
sglang:token_usage{dp_rank="1",tp_rank="2"} 0.1
`
	got := read(t, SGLang, page)
	if got.Running != 8 || got.KVCacheUsage != 0.3 {
		t.Errorf("running = %d, usage = %v; want 8 and 0.3", got.Running, got.KVCacheUsage)
	}
}

func TestNamesThatCannotBeToldAreLeftOut(t *testing.T) {
	for name, bad := range map[string]string{"not UTF-8": "a\xffb", "endless": strings.Repeat("a", 1<<20)} {
		t.Run(name, func(t *testing.T) {
			got := read(t, "", `vllm:num_requests_waiting{model_name="`+bad+`"} 3
vllm:num_requests_running{model_name="m"} 2
vllm:lora_requests_info{max_lora="4",running_lora_adapters="good,`+bad+`",waiting_lora_adapters="`+bad+`"} 1
`)
			want := Figures{Engine: VLLM, Waiting: 3, Running: 2, KVCacheUsage: Unknown, Models: []string{"m"}, Adapters: &Adapters{Running: []string{"good"}, Max: 4}}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestB065_each_endpoint_its_own_engine(t *testing.T) {
	want := map[Name]Figures{
		VLLM:         {Engine: VLLM, BlockSize: 16, BlockCount: 64, Adapters: &Adapters{Max: 1}, Models: []string{"fake-model"}},
		SGLang:       {Engine: SGLang, Waiting: 3, Running: 5, KVCacheUsage: 0.25, BlockSize: 64, BlockCount: 4096, Models: []string{"Qwen/Qwen3-0.6B"}},
		TRTLLMServe:  {Engine: TRTLLMServe, Waiting: 4, Running: 12, KVCacheUsage: 0.75, BlockSize: 32, BlockCount: 2048, Models: []string{"llama"}},
		TritonTRTLLM: {Engine: TritonTRTLLM, Waiting: 6, Running: 8, KVCacheUsage: 0.5, BlockSize: 64, BlockCount: 6240},
	}
	for _, engine := range Names() {
		page := readPage(t, string(engine))
		t.Run(string(engine)+" detected", func(t *testing.T) {
			if d := cmp.Diff(want[engine], read(t, "", page)); d != "" {
				t.Error(d)
			}
		})
		for _, told := range Names() {
			t.Run(string(engine)+" told it is "+string(told), func(t *testing.T) {
				w := want[engine]
				if told != engine {
					w = unknown()
				}
				if d := cmp.Diff(w, read(t, told, page)); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func TestB065_sglang_with_underscores(t *testing.T) {
	page := readPage(t, "sglang")
	want := read(t, "", page)
	if d := cmp.Diff(want, read(t, "", strings.ReplaceAll(page, "sglang:", "sglang_"))); d != "" {
		t.Errorf("underscore instead of colon: %s", d)
	}
	if d := cmp.Diff(want, read(t, "", page+strings.ReplaceAll(page, "sglang:", "sglang_"))); d != "" {
		t.Errorf("both spellings are not added: %s", d)
	}
	gauges := strings.ReplaceAll(page, `sglang:cache_config_info{model_name="Qwen/Qwen3-0.6B",num_pages="4096",page_size="64"} 1.0`,
		"sglang:page_size{model_name=\"m\"} 64\nsglang:num_pages{model_name=\"m\"} 4096")
	if d := cmp.Diff(want, read(t, "", gauges)); d != "" {
		t.Errorf("cache size in gauges: %s", d)
	}
}

func TestB067_no_lora_family_is_no_error(t *testing.T) {
	got := read(t, "", "vllm:num_requests_waiting 1\nvllm:num_requests_running 2\nvllm:kv_cache_usage_perc 0.5\n")
	if d := cmp.Diff(Figures{Engine: VLLM, Waiting: 1, Running: 2, KVCacheUsage: 0.5}, got); d != "" {
		t.Error(d)
	}
}

func TestB068_newest_adapter_series_counts(t *testing.T) {
	const load = "vllm:num_requests_running 1\n"
	a := `vllm:lora_requests_info{max_lora="4",running_lora_adapters="old",waiting_lora_adapters=""} 1.739557565e9` + "\n"
	b := `vllm:lora_requests_info{max_lora="4",running_lora_adapters="b2, b1 ",waiting_lora_adapters="w1,b1"} 1.739557572e9` + "\n"
	c := `vllm:lora_requests_info{max_lora="4",running_lora_adapters="middle",waiting_lora_adapters="x"} 1.739557571e9` + "\n"
	empty := `vllm:lora_requests_info{max_lora="4",running_lora_adapters="",waiting_lora_adapters=""} 1.739557573e9` + "\n"
	newest := &Adapters{Running: []string{"b1", "b2"}, Waiting: []string{"w1"}, Max: 4}
	for name, c := range map[string]struct {
		page string
		want *Adapters
	}{
		"a b c":                        {a + b + c, newest},
		"c b a":                        {c + b + a, newest},
		"b a c":                        {b + a + c, newest},
		"newest has no adapters":       {a + empty + b + c, &Adapters{Max: 4}},
		"a comma and blanks only":      {`vllm:lora_requests_info{max_lora="2",running_lora_adapters=" , ",waiting_lora_adapters=" "} 1` + "\n", &Adapters{Max: 2}},
		"series without the labels":    {`vllm:lora_requests_info{model_name="m"} 2e9` + "\n" + a, &Adapters{Running: []string{"old"}, Max: 4}},
		"two engines, newest of each":  {engines(a, b, c), &Adapters{Running: []string{"b1", "b2", "old"}, Waiting: []string{"w1"}, Max: 8}},
		"unreadable line: not known":   {a + "vllm:lora_requests_info{running_lora_adapters=\"x} 1\n", nil},
		"time is not a number":         {`vllm:lora_requests_info{running_lora_adapters="x"} NaN` + "\n" + a, &Adapters{Running: []string{"old"}, Max: 4}},
		"escapes in the adapters name": {`vllm:lora_requests_info{running_lora_adapters="a\"b\\c"} 1` + "\n", &Adapters{Running: []string{`a"b\c`}}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, read(t, "", c.page+load).Adapters); d != "" {
				t.Error(d)
			}
		})
	}
}

// engines labels the first page as engine 0 and the others as engine 1.
func engines(first string, others ...string) string {
	page := strings.ReplaceAll(first, "{", `{engine="0",`)
	for _, o := range others {
		page += strings.ReplaceAll(o, "{", `{engine="1",`)
	}
	return page
}

func TestB068_same_adapters_are_shared(t *testing.T) {
	r := NewCatalog().Reader("")
	page := func(written string) []byte {
		return []byte("vllm:num_requests_running 1\n" + `vllm:lora_requests_info{max_lora="4",running_lora_adapters="a",waiting_lora_adapters="b"} ` + written)
	}
	first, second := r.Read(page("1")), r.Read(page("2"))
	if first.Adapters == nil || first.Adapters != second.Adapters {
		t.Error("a page with the same adapters made new lists")
	}
}

func TestB074_waiting_by_reason_is_not_added(t *testing.T) {
	got := read(t, "", `vllm:num_requests_waiting{model_name="m"} 6
vllm:num_requests_waiting_by_reason{model_name="m",reason="capacity"} 6
vllm:num_requests_waiting_by_reason{model_name="m",reason="deferred"} 0
vllm:num_requests_running{model_name="m"} 0
vllm:kv_cache_usage_perc{model_name="m"} 0.0
`)
	// That nothing makes progress is for the routers to see, who know the requests.
	if got.Waiting != 6 || got.Running != 0 || got.KVCacheUsage != 0 {
		t.Errorf("got %+v, want 6 waiting on an otherwise idle engine", got)
	}
}

// Each page of an engine with several API servers may be another process's. The
// reader does not smooth that over: what a page says is told as it is, and whoever
// routes adds the requests it knows of itself.
func TestB075_pages_are_told_as_they_are(t *testing.T) {
	r := NewCatalog().Reader("")
	for _, want := range []int32{0, 20, 0, 20} {
		page := "vllm:num_requests_running 0\n"
		if want == 20 {
			page = "vllm:num_requests_running 20\n"
		}
		if got := r.Read([]byte(page)).Running; got != want {
			t.Errorf("running = %d, want %d", got, want)
		}
	}
}

// The report is about a parser of the Prometheus libraries whose zero value panics.
// The product does not use it; where the tests compare with it, it is built with an
// explicit scheme, and both read a real page.
func TestB077_both_parsers_read_a_real_page(t *testing.T) {
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(readPage(t, "vllm")))
	if err != nil || families["vllm:num_requests_running"] == nil {
		t.Fatalf("expfmt read no page: %v", err)
	}
	if f := read(t, "", readPage(t, "vllm")); !f.Known() {
		t.Error("no figure read from a real page")
	}
}

func TestB079_exemplars_and_OpenMetrics(t *testing.T) {
	plain := readPage(t, "vllm")
	exemplar := strings.ReplaceAll(plain, `le="0.3"} 4`, `le="0.3"} 4 # {trace_id="ab"} 0.05`)
	if plain == exemplar {
		t.Fatal("the page has no such line")
	}
	exemplar = strings.ReplaceAll(exemplar, `vllm:kv_cache_usage_perc{model_name="fake-model"} 0`, `vllm:kv_cache_usage_perc{model_name="fake-model"} 0 # {trace_id="ab"} 0.05 1739557565.1`)
	if d := cmp.Diff(read(t, "", plain), read(t, "", exemplar)); d != "" {
		t.Errorf("exemplars on a plain-text page: %s", d)
	}
	want := Figures{Engine: VLLM, Waiting: 1, Running: 2, KVCacheUsage: 0.125, BlockSize: 16, BlockCount: 640, Models: []string{"m"}}
	if d := cmp.Diff(want, read(t, "", readPage(t, "openmetrics"))); d != "" {
		t.Errorf("OpenMetrics page: %s", d)
	}
}

func TestB081_no_final_newline(t *testing.T) {
	got := read(t, "", "vllm:num_requests_running 3\nvllm:num_requests_waiting{model_name=\"m\"} 4")
	if got.Waiting != 4 {
		t.Errorf("waiting = %d, want 4", got.Waiting)
	}
}

func TestB082_odd_numbers(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		want  float32
	}{
		"NaN":                  {"NaN", Unknown},
		"plus infinity":        {"+Inf", Unknown},
		"minus infinity":       {"-Inf", Unknown},
		"below the range":      {"-1", 0},
		"above the range":      {"1.7", 1},
		"a word":               {"unknown", Unknown},
		"nothing":              {"", Unknown},
		"beyond float64":       {"1e999", Unknown},
		"two numbers too many": {"0.5 1 2", Unknown},
		"bad timestamp":        {"0.5 soon", Unknown},
		"exponent":             {"2.5e-01", 0.25},
		"timestamp":            {"0.25 1739557565123", 0.25},
		"hexadecimal":          {"0x1p-2", Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, "", "vllm:num_requests_waiting 4\nvllm:kv_cache_usage_perc "+c.value+"\nvllm:num_requests_running 3\n")
			want := Figures{Engine: VLLM, Waiting: 4, Running: 3, KVCacheUsage: c.want}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("only this family is affected: %s", d)
			}
		})
	}
	for name, c := range map[string]struct {
		value string
		want  int32
	}{
		"NaN": {"NaN", Unknown}, "infinity": {"+Inf", Unknown}, "negative": {"-1", Unknown}, "a word": {"many", Unknown},
		"decimal": {"3.0", 3}, "exponent": {"1e3", 1000}, "beyond int32": {"1e12", math.MaxInt32},
	} {
		t.Run("count "+name, func(t *testing.T) {
			if got := read(t, "", "vllm:num_requests_running 3\nvllm:num_requests_waiting "+c.value+"\n").Waiting; got != c.want {
				t.Errorf("waiting = %d, want %d", got, c.want)
			}
		})
	}
	t.Run("one rank unreadable: the sum is not known", func(t *testing.T) {
		got := read(t, "", "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} NaN\nvllm:num_requests_waiting 1\n")
		if got.Running != Unknown || got.Waiting != 1 {
			t.Errorf("running = %d, waiting = %d; want unknown and 1", got.Running, got.Waiting)
		}
	})
	t.Run("all unreadable is no figure", func(t *testing.T) {
		if got := read(t, "", "vllm:num_requests_running NaN\nvllm:num_requests_waiting x\nvllm:kv_cache_usage_perc NaN\nvllm:cache_config_info{block_size=\"16\"} 1\n"); got.Known() {
			t.Errorf("got %+v, want nothing known", got)
		}
	})
}
