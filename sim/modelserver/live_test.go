package modelserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pointsman/pointsman/sim/engine"
	"github.com/pointsman/pointsman/sim/page"
	"github.com/pointsman/pointsman/sim/workload"
)

// scrape reads the metrics page and returns a value by the beginning of its line.
func (x *started) scrape() func(line string) float64 {
	x.t.Helper()
	resp, text := x.call("GET", "/metrics", "")
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != page.ContentType {
		x.t.Fatalf("status %d, content type %q", resp.StatusCode, got)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
		x.t.Fatal(err)
	}
	return func(begin string) float64 {
		x.t.Helper()
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, begin+" "); ok {
				var v float64
				if _, err := fmt.Sscan(rest, &v); err != nil {
					x.t.Fatal(err)
				}
				return v
			}
		}
		x.t.Fatalf("no line %s in:\n%s", begin, text)
		return 0
	}
}

// The second turn of a conversation finds its prefix, and so has its first token sooner, in the engine's own time.
func TestSecondTurn(t *testing.T) {
	x := start(t, nil)
	cfg := workload.DefaultConfig()
	cfg.Sessions, cfg.Turns = 1, workload.Always(2)
	cfg.SystemTokens, cfg.FirstTokens, cfg.TurnTokens, cfg.AnswerTokens = workload.Always(4000), workload.Always(200), workload.Always(20), workload.Always(50)
	g, err := workload.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	session := g.Session(0)
	sum := 0.0
	var ttft []float64
	var usages []usage
	for turn, ok := session.Next(); ok; turn, ok = session.Next() {
		answer := post[wholeBody](x, "/v1/chat/completions", string(turn.ChatBody(false)), 200)
		if want := len(turn.AppendTokens(nil)); answer.Usage.PromptTokens != want {
			t.Errorf("the server counts %d prompt tokens, the workload %d", answer.Usage.PromptTokens, want)
		}
		session.Answer(answer.Choices[0].Message.Content)
		usages = append(usages, answer.Usage)
		now := x.scrape()(`vllm:time_to_first_token_seconds_sum{model_name="sim-model"}`)
		ttft = append(ttft, now-sum)
		sum = now
	}
	if usages[0].PromptTokensDetails.CachedTokens != 0 {
		t.Errorf("%d tokens of the first turn were cached", usages[0].PromptTokensDetails.CachedTokens)
	}
	// All of the first prompt and all of its answer but the last token, in whole blocks.
	want := (usages[0].PromptTokens + usages[0].CompletionTokens - 1) / 16 * 16
	if got := usages[1].PromptTokensDetails.CachedTokens; got != want {
		t.Errorf("%d tokens of the second turn were cached, want %d", got, want)
	}
	if ttft[0] < 0.25 || ttft[1] > 0.02 {
		t.Errorf("times to first token %v s, want some 0.29 (4,200 tokens and three steps) and 0.013", ttft)
	}
	x.ResetPrefixCache()
	session = g.Session(0)
	turn, _ := session.Next()
	if u := post[wholeBody](x, "/v1/chat/completions", string(turn.ChatBody(false)), 200).Usage; u.PromptTokensDetails.CachedTokens != 0 {
		t.Errorf("%d tokens cached after a reset", u.PromptTokensDetails.CachedTokens)
	}
}

func TestUsageIsWhatTheEngineCounts(t *testing.T) {
	x := start(t, nil)
	var sum usage
	var cached int
	for i := range 12 {
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":"%s"}],"max_tokens":%d}`, strings.Repeat("word", 30+10*(i%4)), 5+i)
		u := post[wholeBody](x, "/v1/chat/completions", body, 200).Usage
		sum.PromptTokens += u.PromptTokens
		sum.CompletionTokens += u.CompletionTokens
		cached += u.PromptTokensDetails.CachedTokens
	}
	s := x.Stats()
	if int(s.PromptTokens) != sum.PromptTokens || int(s.GenerationTokens) != sum.CompletionTokens || int(s.PrefixHits) != cached || cached == 0 {
		t.Errorf("usage %+v and %d cached, engine %+v", sum, cached, s)
	}
	value := x.scrape()
	for line, want := range map[string]float64{
		`vllm:prompt_tokens_total{model_name="sim-model"}`:               float64(sum.PromptTokens),
		`vllm:generation_tokens_total{model_name="sim-model"}`:           float64(sum.CompletionTokens),
		`vllm:prefix_cache_hits_total{model_name="sim-model"}`:           float64(cached),
		`vllm:prefix_cache_queries_total{model_name="sim-model"}`:        float64(sum.PromptTokens),
		`vllm:e2e_request_latency_seconds_count{model_name="sim-model"}`: 12,
		`vllm:request_prompt_tokens_sum{model_name="sim-model"}`:         float64(sum.PromptTokens),
		`vllm:num_requests_running{model_name="sim-model"}`:              0,
		`vllm:kv_cache_usage_perc{model_name="sim-model"}`:               0,
		`vllm:cache_config_info{block_size="16",num_gpu_blocks="8192"}`:  1,
	} {
		if got := value(line); got != want {
			t.Errorf("%s %v, want %v", line, got, want)
		}
	}
	_, text := x.call("GET", "/sim/stats", "")
	var told engine.Stats
	if err := json.Unmarshal([]byte(text), &told); err != nil || told.PromptTokens != s.PromptTokens {
		t.Errorf("/sim/stats %s, %v", text, err)
	}
}

func TestManyAtOnce(t *testing.T) {
	x := start(t, func(c *Config) { c.Engine.MaxRunning = 32 })
	var wg sync.WaitGroup
	errs := make([]error, 200)
	for i := range errs {
		wg.Go(func() {
			body := fmt.Sprintf(`{"messages":[{"role":"user","content":"%d %s"}],"max_tokens":20,"ignore_eos":true,"stream":%v}`, i, strings.Repeat("word", 50), i%2 == 0)
			resp, err := x.do(t.Context(), "POST", "/v1/chat/completions", body)
			if err != nil {
				errs[i] = err
				return
			}
			if i%2 == 0 {
				data, err := events(resp.Body)
				if err != nil || len(data) != 1+20+1+1 { // role, tokens, finish, [DONE]
					errs[i] = fmt.Errorf("%d events, %w", len(data), err)
				}
				return
			}
			var answer wholeBody
			if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Usage.CompletionTokens != 20 {
				errs[i] = fmt.Errorf("usage %+v, %w", answer.Usage, err)
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	s := x.Stats()
	if s.Ended[engine.Length] != 200 || s.GenerationTokens != 4000 || s.BlocksUsed != 0 {
		t.Errorf("engine %+v", s)
	}
	if queued := x.scrape()(`vllm:request_decode_time_seconds_count{model_name="sim-model"}`); queued != 200 {
		t.Errorf("%v decode times, want 200", queued)
	}
}

func TestClientsThatLeave(t *testing.T) {
	x := start(t, func(c *Config) { c.TimeScale = 1 })
	for _, stream := range []bool{true, false} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			before := x.Stats().Ended[engine.Aborted]
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				body := fmt.Sprintf(`{"messages":[{"role":"user","content":"x"}],"max_tokens":20000,"ignore_eos":true,"stream":%v}`, stream)
				if resp, err := x.do(ctx, "POST", "/v1/chat/completions", body); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
				}
			}()
			eventually(t, "the request runs", func() bool { return x.Stats().Running == 1 })
			cancel()
			<-done
			eventually(t, "the request is aborted", func() bool {
				s := x.Stats()
				return s.Running == 0 && s.BlocksUsed == 0 && s.Ended[engine.Aborted] == before+1
			})
		})
	}
}

func TestQueueFull(t *testing.T) {
	x := start(t, func(c *Config) { c.Engine.MaxWaiting = 1; c.Faults.Freeze = true })
	go func() { _, _ = x.do(t.Context(), "POST", "/v1/chat/completions", hello) }()
	eventually(t, "one waits", func() bool { return x.Stats().Waiting == 1 })
	if got := post[errorBody](x, "/v1/chat/completions", hello, 503); !strings.Contains(got.Error.Message, "queue is full") {
		t.Errorf("error %+v", got)
	}
	// Of several prompts all or none are taken.
	if err := x.SetFaults(Faults{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is answered", func() bool { return x.Stats().Ended[engine.Length] == 1 })
	if err := x.SetFaults(Faults{Freeze: true}); err != nil {
		t.Fatal(err)
	}
	post[errorBody](x, "/v1/completions", `{"prompt":["a","b"],"max_tokens":1}`, 503)
	if s := x.Stats(); s.Waiting != 0 || s.Ended[engine.Aborted] != 1 || s.Ended[engine.QueueFull] != 2 {
		t.Errorf("after a half taken request: %+v", s)
	}
}

func TestAdaptersOnThePage(t *testing.T) {
	x := start(t, func(c *Config) {
		c.Adapters, c.Engine.MaxAdapters = []string{"a", "b"}, 1
		c.TimeScale = 1
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for i, name := range []string{"a", "b"} {
		wg.Go(func() {
			_, _ = x.do(ctx, "POST", "/v1/completions", `{"model":"`+name+`","prompt":"x","max_tokens":20000,"ignore_eos":true}`)
		})
		eventually(t, "it is there", func() bool { s := x.Stats(); return s.Running+s.Waiting == i+1 })
	}
	line := `vllm:lora_requests_info{max_lora="1",running_lora_adapters="a",waiting_lora_adapters="b"}`
	if age := time.Since(time.UnixMicro(int64(x.scrape()(line) * 1e6))); age < 0 || age > time.Minute {
		t.Errorf("the current adapters are %v old", age)
	}
	cancel()
	wg.Wait()
	eventually(t, "nothing runs", func() bool { s := x.Stats(); return s.Running+s.Waiting == 0 })
	value := x.scrape()
	idle := value(`vllm:lora_requests_info{max_lora="1",running_lora_adapters="",waiting_lora_adapters=""}`)
	if idle <= value(line) {
		t.Error("the newest set is not the one without adapters")
	}
}

func TestLargePageCountsRequests(t *testing.T) {
	x := start(t, func(c *Config) { c.LargePage = true })
	post[wholeBody](x, "/v1/chat/completions", hello, 200)
	x.streamed("/v1/chat/completions", strings.TrimSuffix(hello, "}")+`,"stream":true}`)
	post[any](x, "/v1/chat/completions", `{}`, 400)
	value := x.scrape()
	for line, want := range map[string]float64{
		`http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"}`:    2,
		`http_requests_total{handler="/v1/chat/completions",method="POST",status="4xx"}`:    1,
		`http_request_duration_seconds_count{handler="/v1/chat/completions",method="POST"}`: 3,
		`vllm:num_preemptions_total{engine="0",model_name="sim-model"}`:                     0,
	} {
		if got := value(line); got != want {
			t.Errorf("%s %v, want %v", line, got, want)
		}
	}
	if n := value(`http_response_size_bytes_sum{handler="/v1/chat/completions",method="POST"}`); n < 500 {
		t.Errorf("%v bytes answered", n)
	}
}

func TestStyles(t *testing.T) {
	for style, line := range map[page.Style]string{
		page.VLLM09:           `vllm:gpu_cache_usage_perc{model_name="sim-model"}`,
		page.SGLang:           `sglang:cache_config_info{num_pages="8192",page_size="16"}`,
		page.SGLangUnderscore: `sglang_cache_config_info{num_pages="8192",page_size="16"}`,
		page.TRTLLM:           `trtllm_kv_cache_max_blocks{engine_type="unspecified",model_name="sim-model"}`,
		page.Triton:           `nv_trt_llm_kv_cache_block_metrics{model="sim-model",kv_cache_block_type="max",version="1"}`,
	} {
		t.Run(string(style), func(t *testing.T) {
			x := start(t, func(c *Config) { c.Page = style })
			x.scrape()(line)
		})
	}
}

// A whole workload over HTTP, as whole-system tests put it to many servers.
func TestConversations(t *testing.T) {
	x := start(t, nil)
	cfg := workload.DefaultConfig()
	cfg.Sessions = 10
	g, err := workload.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range g.Sessions() {
		wg.Go(func() {
			session := g.Session(i)
			for turn, ok := session.Next(); ok; turn, ok = session.Next() {
				resp, err := x.do(t.Context(), "POST", "/v1/completions", string(turn.CompletionBody(true)))
				if err != nil {
					t.Error(err)
					return
				}
				data, err := events(resp.Body)
				if err != nil {
					t.Error(err)
					return
				}
				var text strings.Builder
				var u *usage
				for _, d := range data[:len(data)-1] {
					var c chunk
					if err := json.NewDecoder(bytes.NewReader([]byte(d))).Decode(&c); err != nil {
						t.Error(err)
						return
					}
					if c.Usage != nil {
						u = c.Usage
						continue
					}
					text.WriteString(c.Choices[0].Text)
				}
				if u == nil || u.CompletionTokens != turn.AnswerTokens {
					t.Errorf("session %d turn %d: usage %+v, want %d tokens", i, turn.Index, u, turn.AnswerTokens)
					return
				}
				if turn.Index > 0 && u.PromptTokensDetails.CachedTokens < u.PromptTokens/3 {
					t.Errorf("session %d turn %d: %d of %d tokens cached", i, turn.Index, u.PromptTokensDetails.CachedTokens, u.PromptTokens)
				}
				session.Answer(text.String())
			}
		})
	}
	wg.Wait()
	if rate := x.Stats().HitRate(); rate < 0.5 {
		t.Errorf("hit rate %v", rate)
	}
}
