package body

import (
	"bytes"

	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// maxMedia is how many items of a request are looked at.
const maxMedia = 256

// Media returns the parts of a chat request's messages that are images, audio or video,
// each as the client wrote it. What is named by the same URL twice is returned once;
// audio within the request always is.
func (o *Outline) Media() [][]byte {
	messages := find(o.members, keyMessages)
	if messages == nil || messages.kind != jsonscan.ArrayBegin {
		return nil
	}
	r := mediaReader{raw: o.raw[messages.value:messages.to]}
	r.s.Reset(jsonscan.MaxDepth)
	r.s.Feed(r.raw)
	for r.s.Next() && len(r.items) < maxMedia {
		r.token(&r.s.Token)
	}
	return r.items
}

// mediaReader goes through messages.
type mediaReader struct {
	s     jsonscan.Scanner
	raw   []byte
	items [][]byte
	urls  [][]byte

	content bool   // the key of a message is "content"
	part    string // the key of a part
	begin   int64  // of the part
	media   bool   // its type is one
	url     []byte
}

// token takes a token. Depths: the messages are within 1, their members 2, parts within
// the content 3, the members of parts 4, of what they hold 5.
func (r *mediaReader) token(t *jsonscan.Token) {
	switch {
	case t.Kind == jsonscan.Key:
		switch t.Depth {
		case 2:
			r.content = t.Is("content")
		case 4:
			r.part = partKey(t)
		case 5:
			if r.part = "url"; !t.Is("url") {
				r.part = ""
			}
		}
	case t.Begins():
		r.enter(t)
	case t.Kind == jsonscan.ObjectEnd && t.Depth == 3 && r.media:
		r.take(t.End)
	case t.Kind != jsonscan.String:
	case t.Depth == 4 && r.part == "type":
		r.media = t.Is("image_url") || t.Is("video_url") || t.Is("audio_url") || t.Is("input_audio")
	case t.Depth == 4 && r.part == "link", t.Depth == 5 && r.part == "url":
		r.url = r.raw[t.Start:t.End]
	}
}

func partKey(t *jsonscan.Token) string {
	switch {
	case t.Is("type"):
		return "type"
	case t.Is("image_url"), t.Is("video_url"), t.Is("audio_url"):
		return "link"
	}
	return ""
}

// enter decides whether what begins is looked into.
func (r *mediaReader) enter(t *jsonscan.Token) {
	object := t.Kind == jsonscan.ObjectBegin
	switch {
	case t.Depth == 0, t.Depth == 1 && object, t.Depth == 2 && !object && r.content, t.Depth == 4 && object && r.part == "link":
	case t.Depth == 3 && object:
		r.begin, r.media, r.part, r.url = t.Start, false, "", nil
	default:
		r.s.Skip()
	}
}

// take takes a part over, unless one with its URL was.
func (r *mediaReader) take(end int64) {
	if r.url != nil {
		for _, u := range r.urls {
			if bytes.Equal(u, r.url) {
				return
			}
		}
		r.urls = append(r.urls, r.url)
	}
	r.items = append(r.items, r.raw[r.begin:end])
}

// Encode makes the body that has an engine encode one item.
func (o *Outline) Encode(item []byte) Body {
	var b Body
	b.add([]byte(`{"model":`))
	if m := find(o.members, keyModel); m != nil {
		b.add(o.raw[m.value:m.to])
	} else {
		b.add([]byte("null"))
	}
	b.add([]byte(`,"messages":[{"role":"user","content":[`))
	b.add(item)
	b.add([]byte(`]}],"max_tokens":1,"stream":false}`))
	return b
}

// Encoded returns the outline of the same request, of which others have encoded media: all
// legs are told where these are. params is what they have answered as ec_transfer_params,
// nil for nothing.
func (o *Outline) Encoded(params []byte) *Outline {
	out := *o
	out.encoded = params
	return &out
}
