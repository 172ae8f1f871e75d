package answer

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// Prefill is what the answer of a prefill leg says.
type Prefill struct {
	// Transfer is its kv_transfer_params, word for word; nil if it has none. It is part
	// of the bytes that were read.
	Transfer []byte
	// Encoded is its ec_transfer_params, in the same way: where media are that it has encoded.
	Encoded []byte
	// Prompt and Cached are the tokens of the prompt, and those of them that were in the
	// prefix cache. Negative: not reported.
	Prompt, Cached int64
	// Failed is true if it reports a failure though its status does not: the reason for
	// which it finished is "error" or "abort", its status "failed", or it has an error.
	Failed bool
}

// errNotObject says that an answer is JSON, but not an object.
var errNotObject = errors.New("the answer is not a JSON object")

// Read reads the answer of a prefill leg.
func Read(raw []byte) (Prefill, error) {
	p := Prefill{Prompt: -1, Cached: -1}
	r := prefillReader{raw: raw, p: &p}
	r.s.Reset(jsonscan.MaxDepth)
	r.s.Feed(raw)
	for r.s.Next() {
		if t := &r.s.Token; t.Depth == 0 && t.Kind != jsonscan.ObjectBegin && t.Kind != jsonscan.ObjectEnd {
			return p, errNotObject
		}
		r.token(&r.s.Token)
	}
	if err := r.s.End(); err != nil {
		return p, err
	}
	if !r.object {
		return p, errNotObject
	}
	if r.usage && p.Cached < 0 {
		p.Cached = 0 // engines leave it out when there is none
	}
	return p, nil
}

// prefillReader goes through an answer.
type prefillReader struct {
	s      jsonscan.Scanner
	raw    []byte
	p      *Prefill
	keys   [4]string // of the objects around, by depth
	begin  int64     // of what is handed over
	object bool
	usage  bool
}

func (r *prefillReader) token(t *jsonscan.Token) {
	switch {
	case t.Kind == jsonscan.Key:
		if t.Depth < len(r.keys) {
			r.keys[t.Depth] = keyText(t)
		}
	case t.Begins():
		r.enter(t)
	case t.Ends():
		if handed := r.handed(); t.Depth == 1 && handed != nil {
			if *handed = nil; t.Kind == jsonscan.ObjectEnd { // a later one counts
				*handed = r.raw[r.begin:t.End]
			}
		}
	default:
		r.scalar(t)
	}
}

// enter decides whether what begins is looked into.
func (r *prefillReader) enter(t *jsonscan.Token) {
	object := t.Kind == jsonscan.ObjectBegin
	switch {
	case t.Depth == 0:
		r.object = object
		return
	case t.Depth == 1 && object && r.handed() != nil:
		r.begin = t.Start
	case t.Depth == 1 && object && r.keys[1] == "error":
		r.p.Failed = true
	case t.Depth == 1 && object && r.keys[1] == "usage":
		r.usage = true
		return
	case t.Depth == 1 && !object && r.keys[1] == "choices", t.Depth == 2 && object && r.keys[1] == "choices":
		return
	case t.Depth == 2 && object && r.keys[1] == "usage" && details(r.keys[2]):
		return
	}
	r.s.Skip()
}

func (r *prefillReader) scalar(t *jsonscan.Token) {
	switch {
	case t.Depth == 1 && r.handed() != nil:
		*r.handed() = nil
	case t.Depth == 1 && r.keys[1] == "status" && t.Is("failed"),
		t.Depth == 1 && r.keys[1] == "object" && t.Is("error"),
		t.Depth == 3 && r.keys[1] == "choices" && r.keys[3] == "finish_reason" && t.Kind == jsonscan.String && (t.Is("error") || t.Is("abort")):
		r.p.Failed = true
	case t.Depth == 2 && r.keys[1] == "usage":
		switch r.keys[2] {
		case "prompt_tokens", "input_tokens":
			r.p.Prompt = count(t)
		case "cache_read_input_tokens":
			r.p.Cached = count(t)
		}
	case t.Depth == 3 && r.keys[1] == "usage" && details(r.keys[2]) && r.keys[3] == "cached_tokens":
		r.p.Cached = count(t)
	}
}

// handed is where what the member at the top hands over belongs; nil for others.
func (r *prefillReader) handed() *[]byte {
	switch r.keys[1] {
	case "kv_transfer_params":
		return &r.p.Transfer
	case "ec_transfer_params":
		return &r.p.Encoded
	}
	return nil
}

// details is true for the key of the details of a prompt's tokens.
func details(key string) bool {
	return key == "prompt_tokens_details" || key == "input_tokens_details"
}

func keyText(t *jsonscan.Token) string {
	if t.Escaped {
		return string(jsonscan.AppendUnescaped(nil, t.Bytes))
	}
	return string(t.Bytes)
}

func count(t *jsonscan.Token) int64 {
	if t.Kind != jsonscan.Number {
		return -1
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(t.Bytes)), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
