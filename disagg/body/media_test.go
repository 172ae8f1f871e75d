package body_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMedia(t *testing.T) {
	const a, b = `{"type":"image_url","image_url":{"url":"http://x/a","detail":"high"}}`, `{"image_url":{"url":"http://x/b"},"type":"image_url"}`
	const audio, video = `{"type":"input_audio","input_audio":{"data":"UklG","format":"wav"}}`, `{"type":"video_url","video_url":{"url":"http://x/v"}}`
	const bare = `{"type":"image_url","image_url":"http://x/bare"}`
	tests := []struct {
		name, body string
		want       []string
	}{
		{"F17 three images, two with the same URL", `{"model":"m","messages":[{"role":"user","content":[` + a + `,{"type":"text","text":"hi"},` + b + `]},{"role":"user","content":[ ` + a + ` ]}]}`, []string{a, b}},
		{"B9 video and audio", `{"messages":[{"content":[` + video + `,` + audio + `,` + audio + `]}]}`, []string{video, audio, audio}},
		{"a bare URL", `{"messages":[{"content":[` + bare + `,` + bare + `]}]}`, []string{bare}},
		{"text", `{"messages":[{"content":"image_url"},{"content":[{"type":"text","text":"{\"type\":\"image_url\"}"}]}]}`, nil},
		{"elsewhere", `{"messages":[{"other":[` + a + `],"content":[[` + a + `],{"type":"text","x":` + a + `}]}],"x":[{"content":[` + a + `]}]}`, nil},
		{"odd", `{"messages":{"content":[` + a + `]}}`, nil},
		{"no messages", `{"prompt":"p"}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := read(t, tt.body)
			var got []string
			for _, item := range o.Media() {
				got = append(got, string(item))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestF17EncodeBody(t *testing.T) {
	o := read(t, `{"model":"m","messages":[{"content":[{"type":"image_url","image_url":{"url":"u"}}]}],"max_tokens":50,"stream":true}`)
	got := string(o.Encode(o.Media()[0]).Bytes())
	if want := `{"max_tokens":1,"messages":[{"content":[{"type":"image_url","image_url":{"url":"u"}}],"role":"user"}],"model":"m","stream":false}`; cmp.Diff(decoded(t, want), decoded(t, got)) != "" {
		t.Error(got)
	}
}

// FuzzMedia checks that items are JSON objects of the client's.
func FuzzMedia(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"content":[{"type":"image_url","image_url":{"url":"u"}},{"type":"input_audio"}]}]}`))
	f.Add([]byte(`{"messages":[[{"content":[{}]}]]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := readBytes(raw)
		if err != nil {
			return
		}
		for _, item := range o.Media() {
			var m struct{ Type string }
			if err := json.Unmarshal(item, &m); err != nil {
				t.Fatalf("%q: %v", item, err)
			}
			if !json.Valid(o.Encode(item).Bytes()) {
				t.Fatalf("%q makes %q", item, o.Encode(item).Bytes())
			}
		}
	})
}
