package modelserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/sim/engine"
)

const streamedHello = `{"messages":[{"role":"user","content":"Hello"}],"max_tokens":8,"ignore_eos":true,"stream":true}`

// set changes faults over HTTP.
func (x *started) set(body string) {
	x.t.Helper()
	if resp, text := x.call("POST", "/sim/faults", body); resp.StatusCode != http.StatusOK {
		x.t.Fatalf("POST /sim/faults %s: %s", body, text)
	}
}

// tells returns a channel that gets what f returns.
func tells[T any](f func() T) <-chan T {
	c := make(chan T, 1)
	go func() { c <- f() }()
	return c
}

func TestErrorsWithProbability(t *testing.T) {
	x := start(t, func(c *Config) { c.Faults = Faults{ErrorProbability: 0.5, ErrorStatus: 503} })
	statuses := map[int]int{}
	for range 100 {
		resp, _ := x.call("POST", "/v1/chat/completions", hello)
		statuses[resp.StatusCode]++
	}
	if len(statuses) != 2 || statuses[200] < 25 || statuses[503] < 25 {
		t.Errorf("statuses %v, want about 50 each of 200 and 503", statuses)
	}
	if got := int(x.Stats().Submitted); got != statuses[200] {
		t.Errorf("%d requests reached the engine, want %d", got, statuses[200])
	}
	x.set(`{"errorProbability":1,"errorStatus":0}`)
	post[errorBody](x, "/v1/embeddings", `{"input":"x"}`, 500)
}

func TestHangBeforeHeaders(t *testing.T) {
	x := start(t, func(c *Config) { c.Faults.HangProbability = 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := x.do(ctx, "POST", "/v1/chat/completions", hello); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v, want the client's deadline", err)
	}
	eventually(t, "the server to see that the client has gone", func() bool { return x.InFlight() == 0 })
	answered := tells(func() error { _, err := x.do(t.Context(), "POST", "/v1/chat/completions", hello); return err })
	x.set(`{"hangProbability":0}`)
	// It may have come before or after the change; either way it is answered.
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestHangMidStream(t *testing.T) {
	x := start(t, nil)
	x.set(`{"streamHangProbability":1,"streamTokens":3}`)
	resp, err := x.do(t.Context(), "POST", "/v1/chat/completions", streamedHello)
	if err != nil {
		t.Fatal(err)
	}
	// Role and three tokens come, and then nothing.
	buf := make([]byte, 1<<16)
	n := 0
	for strings.Count(string(buf[:n]), "data: ") < 4 {
		m, err := resp.Body.Read(buf[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	rest := tells(func() string { b, _ := io.ReadAll(resp.Body); return string(b) })
	eventually(t, "the engine is done with it", func() bool { return x.Stats().Ended[engine.Length] == 1 })
	select {
	case got := <-rest:
		t.Fatalf("the stream went on: %s", got)
	case <-time.After(30 * time.Millisecond):
	}
	x.set(`{"streamHangProbability":0}`)
	got := string(buf[:n]) + <-rest
	if strings.Count(got, `"content":"`) != 1+8 || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("after the hang, the whole is not the answer: %s", got)
	}
}

func TestDropMidStream(t *testing.T) {
	x := start(t, nil)
	for _, c := range []struct {
		name, fault, body string
		chunks            int
	}{
		{"after three tokens", `{"streamDropProbability":1,"streamTokens":3}`, streamedHello, 4},
		{"after the headers", `{"streamDropProbability":1,"streamTokens":0}`, streamedHello, 0},
		{"an answer that is too short for the place", `{"streamDropProbability":1,"streamTokens":100}`, streamedHello, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			x.set(c.fault)
			resp, err := x.do(t.Context(), "POST", "/v1/chat/completions", c.body)
			if err != nil {
				t.Fatal(err)
			}
			data, err := events(resp.Body)
			if !errors.Is(err, io.ErrUnexpectedEOF) || len(data) != c.chunks {
				t.Errorf("%d events, then %v; want %d, then an unexpected end", len(data), err, c.chunks)
			}
		})
	}
	t.Run("a whole answer", func(t *testing.T) {
		x.set(`{"streamDropProbability":1}`)
		resp, err := x.do(t.Context(), "POST", "/v1/chat/completions", hello)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) == 0 || int64(len(got)) >= resp.ContentLength {
			t.Errorf("%d of %d bytes, then %v", len(got), resp.ContentLength, err)
		}
	})
	eventually(t, "nothing runs", func() bool { s := x.Stats(); return s.Running+s.Waiting+s.BlocksUsed == 0 })
}

func TestScrapeFaults(t *testing.T) {
	x := start(t, nil)
	x.set(`{"scrapeDelay":"60ms","healthStatus":503}`)
	begin := time.Now()
	x.scrape()
	if took := time.Since(begin); took < 60*time.Millisecond {
		t.Errorf("the scrape took %v", took)
	}
	if resp, _ := x.call("GET", "/health", ""); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("health %d, want 503", resp.StatusCode)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := x.do(ctx, "GET", "/metrics", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the client's deadline", err)
	}
	x.set(`{"scrapeDelay":"0s","scrapeStatus":500}`)
	if resp, _ := x.call("GET", "/metrics", ""); resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("scrape %d, want 500", resp.StatusCode)
	}
	x.call("DELETE", "/sim/faults", "")
	x.scrape()
	if resp, _ := x.call("GET", "/health", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("health %d, want 200", resp.StatusCode)
	}
}

// An engine that is stuck looks idle to all who do not look at its queue.
func TestFreeze(t *testing.T) {
	x := start(t, nil)
	x.set(`{"freeze":true}`)
	answers := make(chan error, 6)
	for range cap(answers) {
		go func() { _, err := x.do(t.Context(), "POST", "/v1/chat/completions", hello); answers <- err }()
	}
	eventually(t, "six wait", func() bool { return x.Stats().Waiting == 6 })
	value := x.scrape()
	for line, want := range map[string]float64{"vllm:num_requests_running": 0, "vllm:num_requests_waiting": 6, "vllm:kv_cache_usage_perc": 0} {
		if got := value(line + `{model_name="sim-model"}`); got != want {
			t.Errorf("%s %v, want %v", line, got, want)
		}
	}
	x.set(`{"freeze":false}`)
	for range cap(answers) {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if got := x.scrape()(`vllm:time_to_first_token_seconds_sum{model_name="sim-model"}`); got > 6*0.1 {
		t.Errorf("six times to first token are %v s: the engine's time went on while it was frozen", got)
	}
}

func TestSlowdown(t *testing.T) {
	x := start(t, nil)
	x.set(`{"slowdown":50}`) // three tokens are some 31 ms of the engine's time: 15 ms
	begin := time.Now()
	post[wholeBody](x, "/v1/chat/completions", hello, 200)
	if took := time.Since(begin); took < 15*time.Millisecond {
		t.Errorf("a slow engine answered in %v", took)
	}
}

func TestRefusedConnections(t *testing.T) {
	x := start(t, nil)
	dial := func() error {
		conn, err := net.DialTimeout("tcp", x.Address(), time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := dial(); err != nil {
		t.Fatal(err)
	}
	x.set(`{"refuseFor":"1h"}`)
	eventually(t, "refused", func() bool { return errors.Is(dial(), syscall.ECONNREFUSED) })
	// The open connection still serves.
	post[wholeBody](x, "/v1/chat/completions", hello, 200)
	x.RefuseFor(0)
	eventually(t, "accepted again", func() bool { return dial() == nil })
	x.RefuseFor(time.Millisecond)
	eventually(t, "accepted again by itself", func() bool { return dial() == nil })
}

func TestStartDelay(t *testing.T) {
	x := start(t, func(c *Config) { c.StartDelay = 100 * time.Millisecond })
	if _, err := x.do(t.Context(), "GET", "/health", ""); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error %v, want connection refused", err)
	}
	eventually(t, "it serves", func() bool {
		resp, err := x.do(t.Context(), "GET", "/health", "")
		return err == nil && resp.StatusCode == http.StatusOK
	})
}

func TestResetPrefixCacheOverHTTP(t *testing.T) {
	x := start(t, nil)
	body := fmt.Sprintf(`{"prompt":"%s","max_tokens":1}`, strings.Repeat("word", 40))
	cached := func() int {
		return post[wholeBody](x, "/v1/completions", body, 200).Usage.PromptTokensDetails.CachedTokens
	}
	cached()
	if got := cached(); got != 32 {
		t.Errorf("%d tokens cached, want 32", got)
	}
	x.set(`{"resetPrefixCache":true}`)
	if got := cached(); got != 0 {
		t.Errorf("%d tokens cached after the reset", got)
	}
	x.call("POST", "/reset_prefix_cache", "")
	if got := cached(); got != 0 {
		t.Errorf("%d tokens cached after vLLM's reset", got)
	}
}

func TestFaultsOverHTTP(t *testing.T) {
	x := start(t, nil)
	x.set(`{"scrapeDelay":"50ms","errorProbability":0.25}`)
	x.set(`{"errorStatus":429}`)
	_, text := x.call("GET", "/sim/faults", "")
	var got Faults
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := Faults{ScrapeDelay: Duration(50 * time.Millisecond), ErrorProbability: 0.25, ErrorStatus: 429}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for body, says := range map[string]string{
		`{"errorProbability":2,"slowdown":0.5}`: "slowdown",
		`{"scrapedelay":50}`:                    "", // a number has no unit
		`{"nonsense":1}`:                        "nonsense",
		`{"scrapeDelay":"5"}`:                   "50ms",
		`[`:                                     "",
	} {
		if e := post[errorBody](x, "/sim/faults", body, 400); !strings.Contains(e.Error.Message, says) {
			t.Errorf("%s: %s", body, e.Error.Message)
		}
	}
	if x.Faults() != want {
		t.Errorf("refused changes took effect: %+v", x.Faults())
	}
}
