package modelserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/sim/engine"
)

func TestStopLetsAnswersEnd(t *testing.T) {
	cfg := DefaultConfig()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ready := make(chan struct{})
	ended := tells(func() error { return s.Run(ctx, func() { close(ready) }) })
	<-ready
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer := tells(func() string {
		resp, err := client.Post(s.URL()+"/v1/chat/completions", "application/json", strings.NewReader(hello))
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return string(b)
	})
	eventually(t, "it runs", func() bool { return s.Stats().Submitted == 1 })
	stop()
	if got := <-answer; !strings.Contains(got, `"completion_tokens":3`) {
		t.Errorf("the answer was cut off: %s", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	if _, err := net.DialTimeout("tcp", s.Address(), time.Second); err == nil {
		t.Error("it still listens")
	}
}

func TestStopGivesUp(t *testing.T) {
	x := start(t, func(c *Config) { c.Faults.StreamHangProbability = 1 })
	resp, err := x.do(t.Context(), "POST", "/v1/chat/completions", streamedHello)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := x.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stop: %v, want that the time is up", err)
	}
	if got, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the hanging stream ended well: %s", got)
	}
	if err := x.Stop(t.Context()); err != nil {
		t.Errorf("stopping again: %v", err)
	}
}

// Killed and started again at its address, a server has forgotten everything.
func TestKillAndRestart(t *testing.T) {
	x := start(t, nil)
	resp, err := x.do(t.Context(), "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":30000,"ignore_eos":true,"stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream of a killed server ended well")
	}
	y := start(t, func(c *Config) { c.Address = x.Address() })
	post[wholeBody](y, "/v1/chat/completions", hello, 200)
	if got := y.Stats().Ended[engine.Length]; got != 1 {
		t.Errorf("%d requests ended, want 1", got)
	}
}

func TestAddressTaken(t *testing.T) {
	x := start(t, nil)
	cfg := DefaultConfig()
	cfg.Address = x.Address()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), func() { t.Error("ready") }); err == nil || !strings.Contains(err.Error(), x.Address()) {
		t.Errorf("error %v, want one that names %s", err, x.Address())
	}
}

func TestConfigFaultsAllAtOnce(t *testing.T) {
	_, err := New(Config{Adapters: []string{"", "m"}, Model: "m", TimeScale: -1, MinAnswer: 5, MaxAnswer: 4, StartDelay: -1,
		Faults: Faults{ScrapeDelay: -1, ScrapeStatus: 99, StreamTokens: -1}})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"Address", "base model", "must not be empty", "MaxAdapters is 0", "TimeScale", "MinAnswer", "EmbeddingSize",
		"StartDelay", "scrapeDelay", "scrapeStatus", "streamTokens", "BlockSize"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in:\n%v", want, err)
		}
	}
	cfg := DefaultConfig()
	cfg.Page = "vlm"
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), `"vlm"`) {
		t.Errorf("error %v", err)
	}
}

func TestClock(t *testing.T) {
	t0 := time.Unix(1000, 0)
	c := clock{mark: t0, speed: 10}
	if got := c.at(t0.Add(time.Second)); got != 10*time.Second {
		t.Errorf("after 1 s at speed 10: %v", got)
	}
	c.setSpeed(t0.Add(time.Second), 0)
	if got := c.at(t0.Add(time.Hour)); got != 10*time.Second {
		t.Errorf("frozen: %v", got)
	}
	if _, ok := c.until(t0, time.Hour); ok {
		t.Error("a frozen clock reaches a time")
	}
	c.setSpeed(t0.Add(2*time.Second), 3)
	wait, ok := c.until(t0.Add(2*time.Second), 10*time.Second+10)
	if got := c.at(t0.Add(2*time.Second + wait)); !ok || got < 10*time.Second+10 {
		t.Errorf("after waiting %v it is %v", wait, got)
	}
}

func FuzzChatBody(f *testing.F) {
	for _, seed := range []string{hello, streamedHello, `{"messages":[{"content":[{"text":"a"},{"type":"image_url"},null]}],"tools":[]}`,
		`{"messages":[{"content":null,"tool_calls":[]}]}`, `{"messages":null}`, `[]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(string(body)))
		var a, b chatRequest
		if readJSON(nil, r, &a) != nil {
			return
		}
		r, _ = http.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(string(body)))
		if fault := readJSON(nil, r, &b); fault != nil {
			t.Fatalf("read once, and then not: %v", fault)
		}
		tokens := a.tokens()
		if !slices.Equal(tokens, b.tokens()) {
			t.Error("one body, two prompts")
		}
		if len(tokens) < 3*len(a.Messages)+2 {
			t.Errorf("%d tokens for %d messages", len(tokens), len(a.Messages))
		}
	})
}

func FuzzPrompts(f *testing.F) {
	for _, seed := range []string{`"a"`, `["a","b"]`, `[1,2]`, `[[1],[2,3]]`, `null`, `[]`, `[[]]`, `[1,"a"]`, `{}`, `-1`, `[4294967296]`} {
		f.Add([]byte(`{"prompt":` + seed + `}`))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(string(body)))
		var q completionRequest
		if readJSON(nil, r, &q) != nil {
			return
		}
		n := 0
		for _, p := range q.Prompt {
			n += len(p)
		}
		if n > len(body) {
			t.Errorf("%d tokens from %d bytes", n, len(body))
		}
	})
}
