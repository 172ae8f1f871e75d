package prompt_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pointsman/pointsman/services/router/internal/prompt"
)

// chatBody is a conversation of about size bytes, with the line breaks that real
// prompts have.
func chatBody(size int) []byte {
	const line = `Pack my box with five dozen liquor jugs, and then tell me why the quick brown fox jumps.\n`
	var b strings.Builder
	b.WriteString(`{"model":"meta-llama/Llama-3.1-8B-Instruct","messages":[{"role":"system","content":"You are a helpful assistant."}`)
	for role := "user"; b.Len() < size-120; {
		fmt.Fprintf(&b, `,{"role":%q,"content":"%s"}`, role, strings.Repeat(line, min(10, max(1, (size-b.Len()-120)/len(line)))))
		if role == "user" {
			role = "assistant"
		} else {
			role = "user"
		}
	}
	b.WriteString(`],"temperature":0.7,"max_tokens":256,"stream":true}`)
	return []byte(b.String())
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1 << 10, 8 << 10, 64 << 10} {
		body := chatBody(size)
		for _, blocks := range []bool{false, true} {
			name := fmt.Sprintf("%dKB", size>>10)
			if blocks {
				name += "+256x64"
			}
			b.Run(name, func(b *testing.B) {
				p := parser(b)
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					out, err := p.Read(prompt.Input{Path: chat, Body: body})
					if err != nil || out.Prompt == nil {
						b.Fatal(err)
					}
					if blocks {
						out.Prompt.Blocks(64, 256)
					}
				}
			})
		}
	}
}

func TestAllocations(t *testing.T) {
	p := parser(t)
	body := chatBody(8 << 10)
	got := testing.AllocsPerRun(100, func() {
		out, err := p.Read(prompt.Input{Path: chat, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		out.Prompt.Blocks(64, 256)
	})
	if got > 16 {
		t.Errorf("reading and hashing a chat of 8 KB allocates %v times, the budget is 16", got)
	}
}
