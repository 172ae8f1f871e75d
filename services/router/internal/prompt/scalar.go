package prompt

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

const (
	maxModelBytes   = 1024
	maxSessionBytes = 128
)

// scalars are the values of the body that are not part of the prompt.
type scalars struct {
	model                string
	modelStart, modelEnd int64
	stream               bool
	media                bool      // a content part is media
	maxTokens            [3]int64  // of max_completion_tokens, max_output_tokens, max_tokens
	sessions             [4]string // of session_id, conversation, prompt_cache_key, user
	salt, extraKey       string
	salts                [saltKeys]keyed // where cache_salt and extra_key stand
	adapter              string
}

// rootValue takes the value of a key of the body.
func (r *Reader) rootValue(t *jsonscan.Token) error {
	v := &r.scalars
	switch r.field {
	case fieldModel:
		return r.model(t)
	case fieldStream:
		v.stream = t.Kind == jsonscan.True
	case fieldMaxCompletionTokens:
		v.maxTokens[0] = r.count(t)
	case fieldMaxOutputTokens:
		v.maxTokens[1] = r.count(t)
	case fieldMaxTokens:
		v.maxTokens[2] = r.count(t)
	case fieldSession:
		v.sessions[0] = r.identity(t)
	case fieldConversation:
		v.sessions[1] = r.identity(t)
	case fieldCacheKey:
		v.sessions[2] = r.identity(t)
	case fieldUser:
		v.sessions[3] = r.identity(t)
	case fieldSalt:
		v.salt = r.raw(t)
		v.salts[saltKey].take(t)
	case fieldExtraKey:
		v.extraKey = r.raw(t)
		v.salts[extraKey].take(t)
	case fieldAdapter:
		v.adapter = r.identity(t)
	case other:
	default:
		if r.kind != Unknown && r.kind != Tokenize {
			r.sectionValue(t)
		}
	}
	return nil
}

// sectionValue takes the value of a field that makes up a prompt, where it is not a
// list that was looked into.
func (r *Reader) sectionValue(t *jsonscan.Token) {
	text := t.Kind == jsonscan.String && t.End > t.Start
	switch r.field {
	case fieldSystem, fieldInstructions:
		if text {
			r.system()
			r.text(t, 'c')
		}
	case fieldInput:
		if r.kind == Responses && text {
			r.role("user")
			r.text(t, 'c')
			break
		}
		r.prompt(t, text)
	case fieldPrompt:
		r.prompt(t, text)
	case fieldMessages:
		r.section().bad = true
	default:
		if text || t.Ends() && t.End-t.Start > 2 {
			r.json(t, sectionTag(r.field))
		}
	}
	r.endSection()
}

func sectionTag(f field) byte {
	switch f {
	case fieldTools:
		return 'T'
	case fieldFunctions:
		return 'F'
	case fieldDocuments:
		return 'D'
	case fieldTemplate:
		return 'K'
	case fieldQuery:
		return 'Q'
	case fieldText1:
		return 'A'
	default:
		return 'B'
	}
}

func (r *Reader) prompt(t *jsonscan.Token, text bool) {
	if text {
		r.text(t, 0)
	} else {
		r.section().bad = true
	}
}

func (r *Reader) model(t *jsonscan.Token) error {
	v := &r.scalars
	switch {
	case t.Kind == jsonscan.Null:
	case t.Kind != jsonscan.String:
		return refuse(BadModel, "model", "model must be a string")
	case t.End-t.Start > maxModelBytes:
		return refuse(BadModel, "model", "model is longer than %d bytes", maxModelBytes)
	default:
		v.model = r.string(t)
		v.modelStart, v.modelEnd = t.Start, t.End
	}
	return nil
}

// string returns the text of a string in valid UTF-8.
func (r *Reader) string(t *jsonscan.Token) string {
	raw := r.src.span(t.Start, t.End)
	if t.Escaped {
		raw = jsonscan.AppendUnescaped(nil, raw)
	}
	return strings.ToValidUTF8(string(raw), "\uFFFD")
}

// count returns a number that counts something, -1 if it is none.
func (r *Reader) count(t *jsonscan.Token) int64 {
	if t.Kind != jsonscan.Number || t.Bytes == nil {
		return -1
	}
	n, err := strconv.ParseInt(string(t.Bytes), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// raw returns the text of a string, and of anything else what is written; null is
// nothing.
func (r *Reader) raw(t *jsonscan.Token) string {
	switch {
	case t.Kind == jsonscan.Null:
		return ""
	case t.Kind == jsonscan.String && t.Escaped:
		return string(jsonscan.AppendUnescaped(nil, r.src.span(t.Start, t.End)))
	default:
		return string(r.src.span(t.Start, t.End))
	}
}

// identity returns a value that is only compared, hashed if it is long.
func (r *Reader) identity(t *jsonscan.Token) string {
	if t.End-t.Start <= maxSessionBytes {
		return strings.ToValidUTF8(r.raw(t), "\uFFFD")
	}
	var sum [8]byte
	binary.BigEndian.PutUint64(sum[:], xxhash.Sum64(r.src.span(t.Start, t.End)))
	return "xxh64:" + hex.EncodeToString(sum[:])
}
