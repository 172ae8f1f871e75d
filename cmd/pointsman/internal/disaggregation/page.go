package disaggregation

import (
	_ "embed"
	"fmt"
	"strings"
	"time"
)

// size is how many sessions are simulated.
type size struct{ capacity, cold, talks int }

// page writes the tables, with what is to be known about them.
func page(n size) (string, error) {
	var b strings.Builder
	b.WriteString(intro)
	if err := splits(&b, n); err != nil {
		return "", err
	}
	if err := thresholds(&b, n); err != nil {
		return "", err
	}
	b.WriteString(outro)
	return b.String(), nil
}

//go:embed intro.md
var intro string

//go:embed model.md
var outro string

// splits compares fleets that take all prompts apart with the aggregated one.
func splits(b *strings.Builder, n size) error {
	most, err := capacity(setup{}, cold(n.capacity))
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "## 5,000 tokens in, 250 out\n\nEvery prompt is new, and %.1f requests a second come: %.0f %% of what %d aggregated servers can do (%.1f). P + D are how many servers prefill and decode.\n\n",
		most*share, share*100, servers, most)
	b.WriteString("| servers | can do | TTFT p50 | TTFT p99 | ITL p50 | ITL p99 | whole p50 | whole p99 |\n|---|---|---|---|---|---|---|---|\n")
	for _, s := range []setup{{}, {4, Always}, {5, Always}, {6, Always}} {
		can, err := capacity(s, cold(n.capacity))
		if err != nil {
			return err
		}
		f, err := measure(s, cold(n.cold), most*share)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "| %s | %.1f/s | %s |\n", s.name(), can, f.latencies())
	}
	return nil
}

// thresholds sweeps the decider.
func thresholds(b *strings.Builder, n size) error {
	most, err := capacity(setup{}, talks(n.capacity))
	if err != nil {
		return err
	}
	rate := most * share
	alone, err := measure(setup{}, talks(n.talks), rate)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## Conversations, and the decider's threshold\n\nPrompts of %.0f tokens on average, answers of %.0f; of most prompts the larger part was in the one before. Sessions begin such that %.1f requests a second are asked, %.0f %% of what the aggregated servers can do (%.1f). "+
		"`nonCachedTokens` is the parameter of `prefix-based-pd-decider`; \"always\" is `always-disagg-pd-decider`.\n\n", alone.prompt, alone.answer, rate, share*100, most)
	b.WriteString("| servers | nonCachedTokens | apart | computed | TTFT p50 | TTFT p99 | ITL p50 | ITL p99 | whole p50 | whole p99 |\n|---|---|---|---|---|---|---|---|---|---|\n")
	fmt.Fprintf(b, "| %s | – | – | %.0f %% | %s |\n", setup{}.name(), alone.computed*100, alone.latencies())
	for _, s := range []setup{{4, Never}, {4, 8192}, {4, 4096}, {4, 2048}, {4, 1024}, {4, 512}, {4, Always}, {3, 2048}, {3, Always}} {
		f, err := measure(s, talks(n.talks), rate)
		if err != nil {
			return err
		}
		said := fmt.Sprint(s.threshold)
		if s.threshold == Always {
			said = "always"
		}
		fmt.Fprintf(b, "| %s | %s | %.0f %% | %.0f %% | %s |\n", s.name(), said, f.disaggregated*100, f.computed*100, f.latencies())
	}
	return nil
}

func (s setup) name() string {
	if s.prefillers == 0 {
		return fmt.Sprintf("%d aggregated", servers)
	}
	return fmt.Sprintf("%d P + %d D", s.prefillers, servers-s.prefillers)
}

func (f figures) latencies() string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.0f ms", d.Seconds()*1000) }
	s := func(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
	return strings.Join([]string{ms(f.ttft50), ms(f.ttft99), ms(f.itl50), ms(f.itl99), s(f.e2e50), s(f.e2e99)}, " | ")
}
