package modelserver

import (
	"io"
	"strings"
	"testing"
)

// A chat over HTTP, client and server together, 16 at once. The engine takes no time worth speaking of.
func BenchmarkChat(b *testing.B) {
	body := `{"messages":[{"role":"user","content":"` + strings.Repeat("word ", 1600) + `"}],"max_tokens":50,"ignore_eos":true`
	for name, end := range map[string]string{"whole": "}", "streamed": `,"stream":true}`} {
		b.Run(name, func(b *testing.B) {
			x := start(b, func(c *Config) { c.TimeScale = 10_000 })
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					resp, err := x.client.Post(x.URL()+"/v1/chat/completions", "application/json", strings.NewReader(body+end))
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		})
	}
}
