package modelserver

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// started is a running server and a client of its own.
type started struct {
	*Server
	t      testing.TB
	client *http.Client
}

// start runs a server that is 100 times faster than the engine's model.
func start(t testing.TB, change func(*Config)) *started {
	t.Helper()
	cfg := DefaultConfig()
	cfg.TimeScale = 100
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	x := &started{s, t, &http.Client{Transport: transport, Timeout: 20 * time.Second}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := s.Kill(); err != nil {
			t.Errorf("kill: %v", err)
		}
	})
	return x
}

// do sends a request and returns the answer, whose body is closed at the end of the test.
func (x *started) do(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, x.URL()+path, strings.NewReader(body))
	if err != nil {
		x.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := x.client.Do(req)
	if err == nil {
		x.t.Cleanup(func() { resp.Body.Close() })
	}
	return resp, err
}

// call sends a request and returns status and body.
func (x *started) call(method, path, body string, header ...string) (*http.Response, string) {
	x.t.Helper()
	resp, err := x.do(x.t.Context(), method, path, body, header...)
	if err != nil {
		x.t.Fatalf("%s %s: %v", method, path, err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		x.t.Fatalf("%s %s: read: %v", method, path, err)
	}
	return resp, string(text)
}

// post sends body to path and decodes the answer, which must have the given status.
func post[T any](x *started, path, body string, status int) T {
	x.t.Helper()
	resp, text := x.call("POST", path, body)
	if resp.StatusCode != status {
		x.t.Fatalf("POST %s %s: status %d, want %d: %s", path, body, resp.StatusCode, status, text)
	}
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		x.t.Fatalf("POST %s: %v in %s", path, err, text)
	}
	return v
}

// chunk is any chunk of a stream.
type chunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Model   string `json:"model"`
	Choices []struct {
		Index        int     `json:"index"`
		FinishReason *string `json:"finish_reason"`
		Text         string  `json:"text"`
		Delta        struct {
			Role    string  `json:"role"`
			Content *string `json:"content"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *usage `json:"usage"`
}

// events reads server-sent events until the stream ends, and says how it ended.
func events(r io.Reader) (data []string, err error) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return data, err
		}
		if d, ok := strings.CutPrefix(line, "data: "); ok {
			data = append(data, strings.TrimSuffix(d, "\n"))
		}
	}
}

// streamed sends body to path and returns the chunks of the answer, which must end with [DONE].
func (x *started) streamed(path, body string) []chunk {
	x.t.Helper()
	resp, err := x.do(x.t.Context(), "POST", path, body)
	if err != nil {
		x.t.Fatal(err)
	}
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(ct, "text/event-stream") {
		x.t.Fatalf("status %d, content type %s", resp.StatusCode, ct)
	}
	data, err := events(resp.Body)
	if err != nil {
		x.t.Fatal(err)
	}
	if len(data) == 0 || data[len(data)-1] != "[DONE]" {
		x.t.Fatalf("the stream does not end with [DONE]: %q", data)
	}
	var chunks []chunk
	for _, d := range data[:len(data)-1] {
		var c chunk
		if err := json.Unmarshal([]byte(d), &c); err != nil {
			x.t.Fatalf("%v in %s", err, d)
		}
		chunks = append(chunks, c)
	}
	return chunks
}

// eventually waits until f holds.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}
