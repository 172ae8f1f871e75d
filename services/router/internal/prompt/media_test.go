package prompt_test

import (
	"testing"

	"github.com/pointsman/pointsman/services/router/internal/prompt"
)

// B8, B9: what says that a request has work for an encoder.
func TestMedia(t *testing.T) {
	part := func(p string) string {
		return `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"what is it?"},` + p + `]}]}`
	}
	for name, c := range map[string]struct {
		body string
		want bool
	}{
		"text":              {`{"model":"m","messages":[{"role":"user","content":"image_url"}]}`, false},
		"parts of text":     {part(`{"type":"text","text":"image_url"}`), false},
		"image":             {part(`{"type":"image_url","image_url":{"url":"http://127.0.0.1/a.png"}}`), true},
		"video":             {part(`{"video_url":{"url":"http://127.0.0.1/a.mp4"},"type":"video_url"}`), true},
		"audio":             {part(`{"type":"input_audio","input_audio":{"data":"","format":"wav"}}`), true},
		"escaped":           {part(`{"type":"image\u005furl"}`), true},
		"no type":           {part(`{"image_url":{"url":"x"}}`), false},
		"not a text":        {part(`{"type":7}`), false},
		"an earlier one":    {`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url"}]},{"role":"user","content":"b"}]}`, true},
		"not in a message":  {`{"model":"m","type":"image_url","messages":[{"role":"user","content":"b"}]}`, false},
		"a tool's argument": {`{"model":"m","messages":[{"role":"user","content":"b"}],"tools":[{"type":"image_url"}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := prompt.NewParser(prompt.DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Read(prompt.Input{Path: "/v1/chat/completions", Body: []byte(c.body)})
			if err != nil {
				t.Fatal(err)
			}
			if got.Media != c.want {
				t.Errorf("media %v, want %v", got.Media, c.want)
			}
		})
	}
}

// The rows about how long deciders take a prompt to be. Text has a token per 4 bytes, as
// everywhere here; token ids are counted.
func TestTokenCountRows(t *testing.T) {
	for name, c := range map[string]struct {
		path, body string
		want       uint32
	}{
		"no text":       {"/v1/completions", `{"model":"m","prompt":""}`, 0},
		"4 token ids":   {"/v1/completions", `{"model":"m","prompt":[1,2,3,4]}`, 4},
		"7 to generate": {"/inference/v1/generate", `{"model":"m","token_ids":[1,2,3,4,5,6,7]}`, 7},
		"3 to embed":    {"/v1/embeddings", `{"model":"m","input":[1,2,3]}`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := prompt.NewParser(prompt.DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Read(prompt.Input{Path: c.path, Body: []byte(c.body)})
			if err != nil {
				t.Fatal(err)
			}
			if got.PromptTokens != c.want {
				t.Errorf("%d tokens, want %d", got.PromptTokens, c.want)
			}
		})
	}
}
