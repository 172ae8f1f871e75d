package page

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pointsman/pointsman/sim/engine"
)

var update = flag.Bool("update", false, "write the golden pages anew")

// options are those of the server whose page testdata/vllm-lines.txt was taken from.
func options(style Style) Options {
	return Options{Style: style, Model: "fake-model", BlockSize: 16, NumBlocks: 64, ModelLen: 1024, MaxAdapters: 1}
}

func mustNew(t testing.TB, o Options) *Page {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// figures are of an engine in the middle of its work.
func figures(t testing.TB, p *Page) *Figures {
	t.Helper()
	cfg := engine.DefaultConfig()
	cfg.NumBlocks, cfg.MaxModelLen, cfg.MaxAdapters, cfg.MaxRunning = 64, 1024, 1, 3
	e, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &Figures{Distributions: p.NewDistributions(), Adapters: &AdapterLog{}, Created: 1.79604e9, Routes: make([]RouteFigures, len(Routes()))}
	prompt := make([]engine.Token, 100)
	now := time.Duration(0)
	for i := range 9 {
		r := engine.Request{Prompt: prompt[:40+5*i], Output: prompt[:60], MaxTokens: 10 * i}
		if i%3 == 2 {
			r.Adapter = []string{"a", "b"}[i%2]
		}
		e.Submit(now, r)
		f.Routes[0].Observe(200, 0.3, 500, 900)
		now += 50 * time.Millisecond
		for _, ev := range e.Advance(now) {
			f.Distributions.Record(ev, r.MaxTokens)
		}
		s := e.Stats()
		f.Adapters.Record(s.RunningAdapters, s.WaitingAdapters, 1796047312+float64(i))
	}
	f.Stats = e.Stats()
	return f
}

func TestGolden(t *testing.T) {
	for _, style := range Styles() {
		t.Run(string(style), func(t *testing.T) {
			p := mustNew(t, options(style))
			got := p.Append(nil, figures(t, p))
			file := filepath.Join("testdata", string(style)+".golden")
			if *update {
				if err := os.WriteFile(file, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-%s +got; -update writes it anew):\n%s", file, diff)
			}
		})
	}
}

// The page of an idle server has line for line what a recorded page of a vLLM server has, values apart.
func TestVLLMLines(t *testing.T) {
	recorded, err := os.ReadFile(filepath.Join("testdata", "vllm-lines.txt"))
	if err != nil {
		t.Fatal(err)
	}
	p := mustNew(t, options(VLLM))
	f := &Figures{Stats: engine.Stats{BlocksTotal: 64}, Distributions: p.NewDistributions(), Adapters: &AdapterLog{}}
	f.Adapters.Record(nil, nil, 1796047312)
	var lines []string
	for line := range strings.Lines(string(p.Append(nil, f))) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "vllm:request_success_total{") {
			continue // the recorded server had other reasons
		}
		if !strings.HasPrefix(line, "#") {
			line = line[:strings.LastIndexByte(line, ' ')]
		}
		lines = append(lines, line)
	}
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(string(recorded)), "\n"), lines); diff != "" {
		t.Errorf("(-recorded +ours):\n%s", diff)
	}
}

// A Prometheus reads every style, and finds running, waiting and usage under the engine's names.
func TestParses(t *testing.T) {
	for _, c := range []struct {
		style                   Style
		large                   bool
		mode                    string // with transfers, if not empty
		running, waiting, usage string
		label                   string // of the running and waiting samples when one family has both
		runningIs, waitingIs    string
		usageIs                 string
	}{
		{style: VLLM, running: "vllm:num_requests_running", waiting: "vllm:num_requests_waiting", usage: "vllm:kv_cache_usage_perc"},
		{style: VLLM, large: true, running: "vllm:num_requests_running", waiting: "vllm:num_requests_waiting", usage: "vllm:kv_cache_usage_perc"},
		{style: VLLM, large: true, mode: "any", running: "vllm:num_requests_running", waiting: "vllm:num_requests_waiting", usage: "vllm:kv_cache_usage_perc"},
		{style: SGLang, mode: "prefill", running: "sglang:num_running_reqs", waiting: "sglang:num_queue_reqs", usage: "sglang:token_usage"},
		{style: SGLang, mode: "decode", running: "sglang:num_running_reqs", waiting: "sglang:num_queue_reqs", usage: "sglang:token_usage"},
		{style: VLLM09, running: "vllm:num_requests_running", waiting: "vllm:num_requests_waiting", usage: "vllm:gpu_cache_usage_perc"},
		{style: SGLang, running: "sglang:num_running_reqs", waiting: "sglang:num_queue_reqs", usage: "sglang:token_usage"},
		{style: SGLangUnderscore, running: "sglang_num_running_reqs", waiting: "sglang_num_queue_reqs", usage: "sglang_token_usage"},
		{style: TRTLLM, running: "trtllm_num_requests_running", waiting: "trtllm_num_requests_waiting", usage: "trtllm_kv_cache_utilization"},
		{style: Triton, running: "nv_trt_llm_request_metrics", waiting: "nv_trt_llm_request_metrics", usage: "nv_trt_llm_kv_cache_block_metrics",
			runningIs: "scheduled", waitingIs: "waiting", usageIs: "fraction"},
	} {
		t.Run(string(c.style), func(t *testing.T) {
			o := options(c.style)
			o.Large, o.Transfers, o.Mode = c.large, c.mode != "", c.mode
			p := mustNew(t, o)
			f := figures(t, p)
			f.Distributions.Transferred(time.Millisecond, 1<<20, 7)
			parser := expfmt.NewTextParser(model.UTF8Validation)
			families, err := parser.TextToMetricFamilies(bytes.NewReader(p.Append(nil, f)))
			if err != nil {
				t.Fatal(err)
			}
			value := func(name, labelled string) float64 {
				for _, m := range families[name].GetMetric() {
					if labelled == "" {
						return m.GetGauge().GetValue()
					}
					for _, l := range m.GetLabel() {
						if l.GetValue() == labelled {
							return m.GetGauge().GetValue()
						}
					}
				}
				t.Fatalf("no sample of %s %s", name, labelled)
				return 0
			}
			if f.Stats.Running == 0 || f.Stats.Waiting == 0 || f.Stats.BlocksUsed == 0 {
				t.Fatalf("nothing to see in %+v", f.Stats)
			}
			if got := value(c.running, c.runningIs); got != float64(f.Stats.Running) {
				t.Errorf("running %v, want %d", got, f.Stats.Running)
			}
			if got := value(c.waiting, c.waitingIs); got != float64(f.Stats.Waiting) {
				t.Errorf("waiting %v, want %d", got, f.Stats.Waiting)
			}
			if got := value(c.usage, c.usageIs); got != f.Stats.KVUsage() {
				t.Errorf("usage %v, want %v", got, f.Stats.KVUsage())
			}
			if ttft := families["vllm:time_to_first_token_seconds"]; ttft != nil {
				h := ttft.GetMetric()[0].GetHistogram()
				if h.GetSampleCount() != f.Distributions.TTFT.Count() || h.GetSampleSum() != f.Distributions.TTFT.Sum() || h.GetSampleCount() == 0 {
					t.Errorf("TTFT count %d sum %v, want %d and %v", h.GetSampleCount(), h.GetSampleSum(), f.Distributions.TTFT.Count(), f.Distributions.TTFT.Sum())
				}
			}
		})
	}
}

func TestLargePage(t *testing.T) {
	o := options(VLLM)
	o.Large, o.Model = true, "meta-llama/Llama-3.1-8B-Instruct"
	p := mustNew(t, o)
	got := p.Append(nil, figures(t, p))
	if n := len(got); n < 54_000 || n > 62_000 {
		t.Errorf("%d bytes, want about 58 KB", n)
	}
	for _, want := range []string{
		`vllm:num_requests_running{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 3`,
		`http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 9`,
		`http_request_duration_seconds_bucket{handler="/v1/chat/completions",method="POST",le="0.5"} 9`,
		`http_request_size_bytes_sum{handler="/v1/chat/completions",method="POST"} 4500`,
		`vllm:prompt_tokens_created{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 1.79604e+09`,
	} {
		if !strings.Contains(string(got), "\n"+want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
}

func TestLabelValuesAreEscaped(t *testing.T) {
	o := options(VLLM)
	o.Model = "a\"b\\c\nd"
	p := mustNew(t, o)
	if got, want := string(p.Append(nil, figures(t, p))), `vllm:num_requests_running{model_name="a\"b\\c\nd"} `; !strings.Contains(got, want) {
		t.Errorf("no line that begins %s", want)
	}
}

func TestAdapterFamily(t *testing.T) {
	p := mustNew(t, options(VLLM))
	f := &Figures{Stats: engine.Stats{BlocksTotal: 64}, Distributions: p.NewDistributions(), Adapters: &AdapterLog{}}
	f.Adapters.Record(nil, nil, 10)
	f.Adapters.Record([]string{"a", "b"}, []string{"c"}, 11)
	f.Adapters.Record(nil, nil, 12)
	want := `vllm:lora_requests_info{max_lora="1",running_lora_adapters="",waiting_lora_adapters=""} 12
vllm:lora_requests_info{max_lora="1",running_lora_adapters="a,b",waiting_lora_adapters="c"} 11
`
	if got := string(p.Append(nil, f)); !strings.Contains(got, want) {
		t.Errorf("page lacks the current and the past sets:\n%s", want)
	}
	for i := range 200 {
		f.Adapters.Record([]string{strings.Repeat("x", i+1)}, nil, 20+float64(i))
	}
	if n := strings.Count(string(p.Append(nil, f)), "vllm:lora_requests_info{"); n != mostAdapterSets {
		t.Errorf("%d sets on the page, want the newest %d", n, mostAdapterSets)
	}
	o := options(VLLM)
	o.MaxAdapters = 0
	if got := string(mustNew(t, o).Append(nil, f)); strings.Contains(got, "lora") {
		t.Error("an engine without adapters shows them")
	}
}

func TestFaults(t *testing.T) {
	_, err := New(Options{Style: "vlm"})
	for _, want := range []string{`"vlm"`, "sglang", "ModelLen"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s in %v", want, err)
		}
	}
	if _, err := New(Options{Style: Triton, ModelLen: 1, Large: true}); err == nil {
		t.Error("a large page of Triton was accepted")
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	o := options(VLLM)
	o.MaxAdapters = 0
	p := mustNew(t, o)
	f := figures(t, p)
	dst := p.Append(nil, f)
	if n := testing.AllocsPerRun(100, func() { dst = p.Append(dst[:0], f) }); n != 0 {
		t.Errorf("%v allocations a page", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, large := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "large"}[large], func(b *testing.B) {
			o := options(VLLM)
			o.Large = large
			p := mustNew(b, o)
			f := figures(b, p)
			dst := p.Append(nil, f)
			b.SetBytes(int64(len(dst)))
			b.ReportAllocs()
			for b.Loop() {
				dst = p.Append(dst[:0], f)
			}
		})
	}
}
