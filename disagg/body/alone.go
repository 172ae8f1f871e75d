package body

import (
	"bytes"
	"errors"

	"github.com/pointsman/pointsman/internal/kit/jsonscan"
)

// between are the fields by which engines are told where to fetch a KV cache, or whom to
// hand one to. Only those who divide requests may set them: from a client they would have
// an engine call whomever the client names, or keep a cache for nobody. vLLM and SGLang
// read the first ones, TensorRT-LLM the last.
var between = [...]string{keyTransfer, keyMedia, keyHost, keyPort, keyRoom, keyPairKey, keyPrefillRank, keyDisaggregated}

// ErrMislabelled says that a body is said to be compressed, and is not.
var ErrMislabelled = errors.New("the body is not compressed as its header Content-Encoding says")

// Compressed returns ErrMislabelled for a body that begins as an object does, in UTF-8 or in
// any other encoding that Python's reader of JSON takes. Engines that do not decompress bodies,
// as most, would read it, with all that is in it. Whatever is really compressed begins
// otherwise.
func Compressed(raw []byte) error {
	t := pad(raw)
	for _, mark := range [...]string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"} {
		t = bytes.TrimPrefix(t, []byte(mark))
	}
	if t = pad(t); len(t) == 0 || t[0] != '{' {
		return nil
	}
	if t = pad(t[1:]); len(t) > 0 && (t[0] == '"' || t[0] == '}') {
		return ErrMislabelled
	}
	return nil
}

// pad leaves out white space, and the zeros that wide encodings have.
func pad(raw []byte) []byte { return bytes.TrimLeft(raw, " \t\r\n\x00") }

// clear returns the bytes without what is between engines in objects of free arguments,
// which vLLM reads from there too: vllm_xargs of the OpenAI APIs, and extra_args of
// sampling_params. Nil: there is none.
func (o *Outline) clear() ([]byte, error) {
	var cuts []cut
	for i := range o.free {
		at := &o.free[i]
		in, err := outline(o.raw[at.value:at.to])
		if err != nil {
			return nil, err
		}
		c := changes{o: in}
		c.apart()
		for _, one := range c.finish() {
			cuts = append(cuts, cut{from: at.value + one.from, to: at.value + one.to})
		}
	}
	if len(cuts) == 0 {
		return nil, nil
	}
	return assemble(o.raw, 0, cuts).Bytes(), nil
}

// Alone makes the body for an engine that does everything by itself: the client's, without
// what is between engines. It is true if there was any; else the body is as it came.
func (o *Outline) Alone() (Body, bool) {
	for _, name := range between {
		if find(o.members, name) != nil || o.encoded != nil {
			c := changes{o: o}
			c.apart()
			return c.body(), true
		}
	}
	return Body{parts: [][]byte{o.raw}, size: int64(len(o.raw))}, o.cleared
}

// apart drops what is between engines, but for what is named.
func (c *changes) apart(but ...string) {
	for _, name := range between {
		kept := false
		for _, b := range but {
			kept = kept || b == name
		}
		switch {
		case kept:
		case name == keyMedia && c.o.encoded != nil: // what the client says of it goes
			c.set(name, string(c.o.encoded))
		default:
			c.drop(name)
		}
	}
}

// Several is true if the request makes more than one sequence: several answers, or several
// prompts. With NIXL there is one KV cache to fetch, once, and each would fetch it.
func (o *Outline) Several(a API) bool {
	in := o.members
	if a == Generate {
		in = o.sampling
	}
	for i := range in {
		m := &in[i]
		switch {
		case m.name == keyAnswers || m.name == keyBestOf:
			if (m.kind == jsonscan.Number || m.kind == jsonscan.String) && string(o.raw[m.value:m.to]) != "1" {
				return true
			}
		case m.name == keyPrompt && a == Completions && m.kind == jsonscan.ArrayBegin:
			if several(o.raw[m.value:m.to]) {
				return true
			}
		}
	}
	return false
}

// several is true for an array of more than one prompt. An array of numbers is one prompt.
func several(array []byte) bool {
	if !bytes.ContainsAny(array[1:], "\"[{") {
		return false
	}
	var s jsonscan.Scanner
	s.Reset(jsonscan.MaxDepth)
	s.Feed(array)
	for n := 0; s.Next(); {
		t := &s.Token
		if t.Depth != 1 || t.Ends() {
			continue
		}
		if n++; n > 1 {
			return true
		}
		if t.Begins() {
			s.Skip()
		}
	}
	return false
}
