package up

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/internal/kit/kittest"
)

// With roles, decisions are shown with both picks, and the answer is the same.
func TestUpWithRoles(t *testing.T) {
	var out screen
	ctx, interrupt := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, []string{"--servers", "3", "--prefill", "1", "--embedded", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--speed", "20", "--log", "error"}, &out)
	}()
	kittest.Eventually(t, "the addresses to be printed", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v\n%s", err, out.String())
		default:
		}
		return strings.Contains(out.String(), "Decisions, as they happen:")
	})
	servers := regexp.MustCompile(`server-\d +http://(\S+)  (\S+)`).FindAllStringSubmatch(out.String(), -1)
	if len(servers) != 3 || servers[0][2] != "decode" || servers[2][2] != "prefill" {
		t.Fatalf("servers %v in:\n%s", servers, out.String())
	}
	url := regexp.MustCompile(`curl (http://\S+)`).FindStringSubmatch(out.String())[1]
	// Twice the same prompt; others until the scorer has told of one in time, which it may
	// not on a busy machine.
	prompt := 0
	kittest.Eventually(t, "both decisions to be shown", func() bool {
		prompt++
		body := fmt.Sprintf(`{"model":"sim-model","max_tokens":4,"prompt":"%d %s"}`, prompt, strings.Repeat("a long story ", 400))
		for range 2 {
			resp, err := http.Post(url, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("status %d", resp.StatusCode)
			}
		}
		return strings.Contains(out.String(), "prefill "+servers[2][1]) && strings.Contains(out.String(), "no prefill (")
	})
	http.DefaultClient.CloseIdleConnections()
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}
