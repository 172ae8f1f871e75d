package kubernetes

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/kittest"
)

// pageServer serves a page at an address.
func pageServer(t testing.TB, address string, handler http.HandlerFunc) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // until it is closed
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(text))
	}
}

// B065: engines differ within a pool, and a label may say which. B070, B108: the port is
// the pool's; a page that always fails is told once. B085: a pod whose probe hangs
// leaves at once. B095: a page without figures is unknown, not idle.
func TestB065_B070_B085_B095_B108_pages_of_pods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	port := kittest.FreePort(t)
	at := func(i int) string { return fmt.Sprintf("127.0.6.%d:%d", i, port) }
	pageServer(t, at(1), says("vllm:num_requests_waiting 3\nvllm:num_requests_running 1\nvllm:kv_cache_usage_perc 0.5\n"))
	pageServer(t, at(2), says("sglang:num_queue_reqs 4\nsglang:num_running_reqs 2\nsglang:token_usage 0.25\n"))
	pageServer(t, at(3), says("# nothing yet\n"))
	hung := make(chan struct{})
	defer close(hung)
	pageServer(t, at(4), func(http.ResponseWriter, *http.Request) { <-hung })
	pageServer(t, at(5), func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) })
	w.pool(t, "m", port)
	c := w.collector(t, "--poolName=m", "--poolNamespace="+w.ns)
	h := w.follow(t, w.ns+"/m")
	for i := 1; i <= 5; i++ {
		w.pod(t, fmt.Sprintf("p-%d", i), "m", fmt.Sprintf("127.0.6.%d", i), func(p object) {
			if i == 2 {
				p["metadata"].(object)["labels"].(object)["llm-d.ai/engine-type"] = "sglang"
			}
		})
	}
	h.wait(t, "all of them", at(1), at(2), at(3), at(4), at(5))
	kittest.Eventually(t, "figures of both engines are known, and of no other", func() bool {
		s := h.Snapshot()
		if s.Len() != 5 {
			return false
		}
		got := make(map[string][2]int32)
		for i, e := range s.Table.Endpoints {
			got[e.Host] = [2]int32{s.Waiting[i], s.Running[i]}
		}
		return got["127.0.6.1"] == [2]int32{3, 1} && got["127.0.6.2"] == [2]int32{4, 2} && got["127.0.6.3"] == [2]int32{-1, -1} && got["127.0.6.5"] == [2]int32{-1, -1}
	})
	kittest.Eventually(t, "the failing page was tried again", func() bool { return metric(t, c, "scrapes_total", `result="status"`) > 3 })
	if n := strings.Count(c.Log(), at(5)); n != 1 {
		t.Errorf("the failing page is told %d times:\n%s", n, c.Log())
	}
	w.Delete(t, w.podPath("p-4"))
	h.wait(t, "the one that hangs is gone", at(1), at(2), at(3), at(5))
}

// B109: a pod is deleted and made again while its pool changes, many times.
func TestB109_pods_and_pool_change_at_once(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool(t, "m", 1)
	w.pods(t, "m", 0, 5)
	c := w.collector(t, "--poolName=m", "--poolNamespace="+w.ns)
	h := w.follow(t, w.ns+"/m")
	w.converge(t, h, "m", 1)
	for i := range 15 {
		changed := make(chan struct{})
		go func() {
			defer close(changed)
			w.Patch(t, w.poolPath("m"), object{"spec": object{"targetPorts": numbers(1 + i%3)}})
		}()
		name := fmt.Sprintf("m-%d", i%5)
		w.Delete(t, w.podPath(name))
		w.pod(t, name, "m", address(i%5))
		<-changed
	}
	w.converge(t, h, "m", 1+14%3)
	kittest.Eventually(t, "all are scraped", func() bool { return metric(t, c, "owned_endpoints", "") == 5 })
}
