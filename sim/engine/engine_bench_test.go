package engine

import (
	"fmt"
	"testing"
	"time"
)

// A second of a busy engine: requests of 1,000 prompt tokens, a quarter of them new, and 100 of answer.
func BenchmarkAdvanceSecond(b *testing.B) {
	for _, load := range []int{4, 16} {
		b.Run(fmt.Sprintf("requests=%d", load), func(b *testing.B) {
			e := mustNew(b, DefaultConfig())
			b.ReportAllocs()
			now, n := time.Duration(0), 0
			answer := tokens(7, 100)
			for b.Loop() {
				for range load {
					now += time.Second / time.Duration(load)
					n++
					prompt := tokens(n%8, 1000)
					for i := 750; i < 1000; i++ {
						prompt[i] = Token(n)
					}
					e.Submit(now, Request{Prompt: prompt, Output: answer})
					e.Advance(now)
				}
			}
			b.ReportMetric(now.Seconds()/b.Elapsed().Seconds(), "simulated-s/s")
		})
	}
}
