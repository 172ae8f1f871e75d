package disaggregation

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "measure, and write docs/bench/disaggregation.md")

// make bench-pd: some 40 seconds. Otherwise it only sees that a page comes out.
func TestPage(t *testing.T) {
	n := size{capacity: 60, cold: 60, talks: 30}
	if *update {
		n = size{capacity: 500, cold: 1800, talks: 900}
	}
	text, err := page(n)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 8 aggregated |", "| 5 P + 3 D |", "| 4 P + 4 D | always | 100 % |", "| 4 P + 4 D | 0 | 0 % |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q on the page:\n%s", want, text)
		}
	}
	if !*update {
		return
	}
	file := filepath.Join("..", "..", "..", "..", "docs", "bench", "disaggregation.md")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What the page says of interference, at a size that takes no time.
func TestAnswersDoNotWaitForPrompts(t *testing.T) {
	const rate = 13
	together, err := measure(setup{}, cold(300), rate)
	if err != nil {
		t.Fatal(err)
	}
	apart, err := measure(setup{5, Always}, cold(300), rate)
	if err != nil {
		t.Fatal(err)
	}
	if together.disaggregated != 0 || apart.disaggregated != 1 {
		t.Errorf("%v and %v of the requests were taken apart", together.disaggregated, apart.disaggregated)
	}
	if apart.itl99*3 > together.itl99 {
		t.Errorf("ITL p99 %v apart, %v together", apart.itl99, together.itl99)
	}
	if apart.ttft50 < together.ttft50 {
		t.Errorf("TTFT p50 %v apart, %v together: what is it paid with?", apart.ttft50, together.ttft50)
	}
}

// The thresholds are the router's: they mean what its decider makes of them.
func TestDeciderIsTheRouters(t *testing.T) {
	for _, c := range []struct {
		name                      string
		threshold, prompt, cached int
		want                      bool
	}{
		{"A1: 0 is never", Never, 10_000, 0, false},
		{"a short prompt", 512, 511, 0, false},
		{"A7: just met", 512, 1024, 512, true},
		{"A14: cached in RAM", 512, 4096, 3840, false},
		{"always", Always, 1, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := decide(c.threshold)(c.prompt, c.cached); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
