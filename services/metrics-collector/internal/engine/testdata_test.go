package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func readPage(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// largePage is testdata/vllm.txt with as many more histograms as make it the size of
// the page of a real engine: 58 KB, about 600 lines.
func largePage(t testing.TB) []byte {
	t.Helper()
	small := readPage(t, "vllm")
	var more strings.Builder
	for h := 0; more.Len()+len(small) < 58_000; h++ {
		name := fmt.Sprintf("vllm:request_phase_%d_time_seconds", h)
		fmt.Fprintf(&more, "# HELP %s Histogram of time spent in a phase.\n# TYPE %[1]s histogram\n", name)
		for le := range 20 {
			fmt.Fprintf(&more, "%s_bucket{engine=\"0\",le=\"%g\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} %d.0\n", name, 0.3*float64(le+1), 100*le)
		}
	}
	cut := strings.Index(small, "# HELP vllm:num_requests_running")
	return []byte(small[:cut] + more.String() + small[cut:])
}
