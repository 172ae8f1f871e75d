package fleet

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServers(t *testing.T) {
	pages, err := NewPages("m", true)
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(t.Context(), Config{Servers: 2, Pages: pages, Model: "m", Answer: "yes", Header: "x-by"})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer http.DefaultClient.CloseIdleConnections()
	get := func(resp *http.Response, err error) (string, http.Header) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d, %v", resp.StatusCode, err)
		}
		return string(b), resp.Header
	}
	for _, a := range f.Addresses() {
		first, _ := get(http.Get("http://" + a + "/metrics"))
		second, _ := get(http.Get("http://" + a + "/metrics"))
		if len(first) < 45<<10 || !strings.Contains(first, "vllm:num_requests_waiting") || first == second {
			t.Errorf("pages of %d and %d bytes, alike: %t", len(first), len(second), first == second)
		}
		if models, _ := get(http.Get("http://" + a + "/v1/models")); !strings.Contains(models, `"id":"m"`) {
			t.Errorf("models %s", models)
		}
		answer, header := get(http.Post("http://"+a+"/v1/chat/completions", "application/json", io.MultiReader(bytes.NewReader(make([]byte, 100<<10))))) // chunked
		if answer != "yes" || header.Get("x-by") != a {
			t.Errorf("answer %q by %q, want yes by %q", answer, header.Get("x-by"), a)
		}
	}
	if scrapes, requests := f.Counts(); scrapes != 4 || requests != 2 {
		t.Errorf("%d scrapes and %d requests were counted, want 4 and 2", scrapes, requests)
	}
}

func TestNoServers(t *testing.T) {
	if _, err := New(t.Context(), Config{}); err == nil {
		t.Error("a fleet of nobody was started")
	}
}
